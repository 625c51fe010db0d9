/** The machines of scheduler jobs, their runs and direct reservations. */
import { defineMachine, moves } from '../machine.ts'

/**
 * The states of a scheduler job: 3 states, 2 moves. The outcome is on the job's run, so a job stays `RUNNING` forever;
 * `finished_at` distinguishes a finished job from one in flight. A retry is a new job.
 */
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
      'It is first in the queue, and no reservation is active. Its run is inserted with it.',
    ),
    ...moves(
      'QUEUED',
      'CANCELLED',
      ['operator'],
      [],
      'Only a queued job is cancelled. Ending its run stops a job in flight.',
    ),
  ],
  lock: 'from-state',
  stamps: [{ column: 'started_at', on: ['RUNNING'], once: true }],
  byFact: [{ state: 'RUNNING', column: 'finished_at', is: 'set', type: 'terminal' }],
})

export type SchedulerJobState = keyof typeof schedulerJobMachine.states

/** Represents `status is null`; never stored. */
export const openJobRun = 'OPEN'

/**
 * The states of a job run: open, then one outcome, once. The column stores NULL for an open run: `stateOfColumn` and
 * `columnOfState` of the kernel translate, and the CHECK list leaves `OPEN` out.
 */
export const schedulerJobRunMachine = defineMachine({
  name: 'scheduler-job-run',
  title: 'The one execution of a job, and its outcome.',
  states: { [openJobRun]: 'running', COMPLETED: 'terminal', FAILED: 'terminal', SKIPPED: 'terminal' },
  initial: openJobRun,
  nullState: openJobRun,
  creation: { by: ['dispatcher', 'recovery'], emits: [] },
  moves: [
    ...moves(openJobRun, 'COMPLETED', ['executor'], []),
    ...moves(
      openJobRun,
      'FAILED',
      ['executor', 'recovery'],
      [],
      'The job failed or was stopped, or the scheduler died while it ran.',
    ),
    ...moves(
      openJobRun,
      'SKIPPED',
      ['executor'],
      [],
      'A precondition failed before the work began. It is not retried.',
    ),
  ],
  lock: 'from-state',
  stamps: [{ column: 'finished_at', on: ['COMPLETED', 'FAILED', 'SKIPPED'], once: true }],
})

export type SchedulerJobRunState = keyof typeof schedulerJobRunMachine.states

/** The states of a direct reservation: 3 states, 2 moves; while one is active no queued job is dispatched. */
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
      'The time expires_at has passed. This is checked at the start and on each tick.',
    ),
  ],
  lock: 'from-state',
})

export type SchedulerReservationState = keyof typeof schedulerReservationMachine.states
