/**
 * The states of a flow task: 5 states, 7 moves. `Failed` waits for its retry while `next_retry_at` is set and is final
 * when it is NULL. Flow has no event log: a move emits the kind of the outbox row that is written with it.
 */
import { defineMachine, moves } from '../machine.ts'

const lease = ['worker_id', 'lease_token', 'lease_expires_at'] as const

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
      'the claim is won; the dispatcher claims for functions and for itself',
    ),
    ...moves(
      'Running',
      'Completed',
      ['worker'],
      ['route_event'],
      'with the lease token and the attempt now on the row',
    ),
    ...moves(
      'Running',
      'Failed',
      ['worker', 'reaper'],
      [],
      'an error with the lease token and the attempt now on the row, or the lease or the time limit has run out',
    ),
    ...moves('Failed', 'Queued', ['sweeper'], ['enqueue_task'], 'next_retry_at has come; the attempt goes up by one'),
    ...moves('Queued', 'Canceled', ['operator'], []),
    ...moves('Running', 'Canceled', ['operator'], [], 'the lease token becomes invalid'),
    ...moves('Failed', 'Canceled', ['operator'], [], 'a retry is pending'),
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
