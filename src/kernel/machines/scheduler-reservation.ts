/** The states of a direct reservation: 3 states, 2 moves; while one is active no queued job is dispatched. */
import { defineMachine, moves } from '../machine.ts'

export const schedulerReservationMachine = defineMachine({
  name: 'scheduler-reservation',
  title: 'The slot of the scheduler, held by one direct execution.',
  states: { ACTIVE: 'running', RELEASED: 'terminal', EXPIRED: 'terminal' },
  initial: 'ACTIVE',
  creation: { by: ['holder'], emits: [] },
  moves: [
    ...moves('ACTIVE', 'RELEASED', ['holder'], []),
    ...moves(
      'ACTIVE',
      'EXPIRED',
      ['recovery', 'dispatcher'],
      [],
      'expires_at has passed, seen at the start or on a tick',
    ),
  ],
  lock: 'from-state',
})

export type SchedulerReservationState = keyof typeof schedulerReservationMachine.states
