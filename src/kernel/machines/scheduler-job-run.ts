/**
 * The states of a job run: open, then one outcome, once. The column stores NULL for an open run:
 * `stateOfColumn` and `columnOfState` of the kernel translate, and the CHECK list leaves `OPEN` out.
 */
import { defineMachine, moves } from '../machine.ts'

/** Stands for `status is null`; never stored. */
export const openJobRun = 'OPEN'

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
      'the job failed or was stopped, or the scheduler died while it ran',
    ),
    ...moves(openJobRun, 'SKIPPED', ['executor'], [], 'a precondition failed before the work began; no retry'),
  ],
  lock: 'from-state',
  stamps: [{ column: 'finished_at', on: ['COMPLETED', 'FAILED', 'SKIPPED'], once: true }],
})

export type SchedulerJobRunState = keyof typeof schedulerJobRunMachine.states
