/** The states of an outbox row. There is no lock time: a claim moves `available_at` forward, and after it the row is free again. */
import { defineMachine, moves } from '../machine.ts'

export const flowOutboxMachine = defineMachine({
  name: 'flow-outbox',
  title: 'One effect to carry out after its change has been committed, at least once.',
  states: { Pending: 'pending', Processing: 'running', Done: 'terminal', Failed: 'terminal' },
  initial: 'Pending',
  creation: { by: ['dispatcher', 'worker', 'sweeper'], emits: [] },
  moves: [
    ...moves('Pending', 'Processing', ['drainer'], [], 'available_at has come'),
    ...moves('Processing', 'Done', ['drainer'], []),
    ...moves(
      'Processing',
      'Pending',
      ['drainer', 'reaper'],
      [],
      'the effect failed and attempts remain, or its drainer died and the visibility time is over',
    ),
    ...moves('Processing', 'Failed', ['drainer', 'reaper'], [], 'the effect failed and no attempt is left'),
  ],
  lock: 'from-state',
  stamps: [{ column: 'processed_at', on: ['Done'] }],
})

export type FlowOutboxState = keyof typeof flowOutboxMachine.states
