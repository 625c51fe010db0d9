/**
 * The states of a scheduler job: 3 states, 2 moves. The outcome is on the job's run, so a job stays `RUNNING` for ever;
 * `finished_at` distinguishes a finished job from one in flight. A retry is a new job.
 */
import { defineMachine, moves } from '../machine.ts'

export const schedulerJobMachine = defineMachine({
  name: 'scheduler-job',
  title: 'One queued piece of work, dispatched at most once.',
  states: { QUEUED: 'pending', RUNNING: 'running', CANCELLED: 'terminal' },
  initial: 'QUEUED',
  creation: { by: ['queue_manager', 'recovery'], emits: [] },
  moves: [
    ...moves(
      'QUEUED',
      'RUNNING',
      ['dispatcher'],
      [],
      'it is the first of the queue and no reservation is active; its run is inserted with it',
    ),
    ...moves('QUEUED', 'CANCELLED', ['operator'], [], 'a job in flight is stopped by ending its run'),
  ],
  lock: 'from-state',
  stamps: [{ column: 'started_at', on: ['RUNNING'], once: true }],
  byFact: [{ state: 'RUNNING', column: 'finished_at', is: 'set', type: 'terminal' }],
})

export type SchedulerJobState = keyof typeof schedulerJobMachine.states
