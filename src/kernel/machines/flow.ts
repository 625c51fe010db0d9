/** The machines of dataflow tasks and of the outbox. */
import { defineMachine, moves } from '../machine.ts'

const lease = ['worker_id', 'lease_token', 'lease_expires_at'] as const

/**
 * The states of a flow task: 5 states, 7 moves. `Failed` waits for its retry while `next_retry_at` is set and is final when it is
 * NULL. Flow has no event log: a move emits the kind of the outbox row that is written with it.
 */
export const flowTaskMachine = defineMachine({
  name: 'flow-task',
  title: 'One execution of a job for one partition or cursor.',
  states: { Queued: 'pending', Running: 'running', Completed: 'terminal', Failed: 'pending', Canceled: 'terminal' },
  initial: 'Queued',
  creation: { by: ['dispatcher'], emits: ['enqueue_task'] },
  moves: [
    ...moves(
      'Queued',
      'Running',
      ['worker', 'dispatcher'],
      [],
      'The claim succeeded. The dispatcher claims for functions and for itself.',
    ),
    ...moves(
      'Running',
      'Completed',
      ['worker'],
      ['route_event'],
      'The caller has the current lease token and attempt of the row.',
    ),
    ...moves(
      'Running',
      'Failed',
      ['worker', 'reaper'],
      [],
      'A caller with the current lease token and attempt reports an error, or the lease or the time limit has expired.',
    ),
    ...moves(
      'Failed',
      'Queued',
      ['sweeper'],
      ['enqueue_task'],
      'The time next_retry_at has come. The attempt is incremented.',
    ),
    ...moves('Queued', 'Canceled', ['operator'], []),
    ...moves('Running', 'Canceled', ['operator'], [], 'The lease token becomes invalid.'),
    ...moves('Failed', 'Canceled', ['operator'], [], 'A retry is pending.'),
  ],
  lock: 'lease',
  stamps: [
    // Every claim starts a new attempt, and timeout_seconds bounds one attempt: no `once`.
    { column: 'started_at', on: ['Running'] },
    { column: 'last_heartbeat', on: ['Running'] },
    { column: 'completed_at', on: ['Completed', 'Canceled'] },
  ],
  clears: [
    // Completed keeps its token, so that a repeated completion finds its first answer.
    ...lease.map((column) => ({ column, on: ['Queued', 'Canceled'] as const })),
    { column: 'last_heartbeat', on: ['Queued'] },
    { column: 'next_retry_at', on: ['Queued', 'Canceled'] },
  ],
  byFact: [{ state: 'Failed', column: 'next_retry_at', is: 'empty', type: 'terminal' }],
})

export type FlowTaskState = keyof typeof flowTaskMachine.states

/** The states of an outbox row. There is no lock time: a claim moves `available_at` forward, and after it the row is free again. */
export const flowOutboxMachine = defineMachine({
  name: 'flow-outbox',
  title: 'One effect to carry out after its change has been committed, at least once.',
  states: { Pending: 'pending', Processing: 'running', Done: 'terminal', Failed: 'terminal' },
  initial: 'Pending',
  creation: { by: ['dispatcher', 'worker', 'sweeper'], emits: [] },
  moves: [
    ...moves('Pending', 'Processing', ['drainer'], [], 'The time available_at has come.'),
    ...moves('Processing', 'Done', ['drainer'], []),
    ...moves(
      'Processing',
      'Pending',
      ['drainer', 'reaper'],
      [],
      'The effect failed and attempts remain, or its drainer died and the visibility time has passed.',
    ),
    ...moves('Processing', 'Failed', ['drainer', 'reaper'], [], 'The effect failed and no attempt is left.'),
  ],
  lock: 'from-state',
  stamps: [{ column: 'processed_at', on: ['Done'] }],
})

export type FlowOutboxState = keyof typeof flowOutboxMachine.states
