/**
 * A person does a piece of work once more: a new job like the old one, at the end of its priority. It is no retry of the chain,
 * whose verdict is final (D3); the old job and its run stay as they are.
 */
import { accept, type Decision, refuse } from '#kernel/refusal'
import { findRetry, requireJob } from './job-repository.ts'
import { findRunOfJob } from './run-repository.ts'
import type { Scheduler } from './scheduler.ts'
import type { StoredJob } from './stored-rows.ts'
import { addJob } from './submit-job.ts'

export function retryJob(scheduler: Scheduler, jobId: string): Decision<StoredJob> {
  return scheduler.db.write((tx) => {
    const old = requireJob(tx, jobId)
    if (!old.ok) return old
    const outcome = old.value.status === 'CANCELLED' ? 'CANCELLED' : findRunOfJob(tx, jobId)?.status
    if (outcome !== 'FAILED' && outcome !== 'SKIPPED' && outcome !== 'CANCELLED') {
      return refuse('scheduler.job.not_failed', 'only a job that failed, was skipped or was cancelled is done again', {
        hint: 'Add a new job for work that is wanted twice.',
        facts: { status: old.value.status, outcome: outcome ?? null },
      })
    }
    const retry = findRetry(tx, jobId)
    if (retry) {
      return refuse('scheduler.job.not_failed', 'the job has its retry already', {
        hint: 'Look at the newest one of the chain.',
        facts: { retry: retry.job_id },
      })
    }
    const { job_type, template_id, params, priority } = old.value
    return accept(addJob(scheduler, tx, { job_type, template_id, params, priority }))
  })
}
