/** Changes, cancels and renumbers queued jobs, and repeats jobs that have ended. A dispatched job never changes. */
import type { z } from 'zod'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { changeJobBody } from './contract.ts'
import type { WriteTx } from './database.ts'
import { parseInput } from './parse-input.ts'
import { settleGroup, notifyCancelled } from './job-group.ts'
import { findRetry, requireJob, requireQueued, saveJobCancelled } from './job-repository.ts'
import { requireTemplate } from './job-template.ts'
import { endPosition, findPosition, listQueuedPriorities, renumberPriority, saveParams, savePlace } from './queue.ts'
import { findRunOfJob } from './run-repository.ts'
import { nowMs, type Scheduler } from './scheduler.ts'
import type { StoredJob } from './stored-rows.ts'
import { addJob, checkParams, checkWork } from './submit-job.ts'

/** Replaces the params, checked against the job's template. A new priority puts the job at the end of that priority. */
export function changeJob(
  scheduler: Scheduler,
  jobId: string,
  body: z.input<typeof changeJobBody>,
): Decision<StoredJob> {
  const parsed = parseInput(changeJobBody, body)
  if (!parsed.ok) return parsed
  const { params, priority } = parsed.value
  return scheduler.db.write((tx) => {
    const found = requireQueued(tx, jobId)
    if (!found.ok) return found
    let job = found.value
    if (params !== undefined) {
      const checked = checkForTemplate(tx, job, params)
      if (!checked.ok) return checked
      job = saveParams(tx, jobId, JSON.stringify(checked.value)) ?? job
    }
    if (priority !== undefined && priority !== job.priority) {
      const position = endPosition(findPosition(tx, 'last', { priority }, jobId))
      job = savePlace(tx, jobId, { priority, position }) ?? job
    }
    return accept(job)
  })
}

function checkForTemplate(tx: WriteTx, job: StoredJob, params: JsonObject): Decision<JsonObject> {
  const template = job.template_id === null ? undefined : requireTemplate(tx, job.template_id)
  // An archived template no longer checks params.
  const checked = template?.ok ? checkParams(template.value, params) : accept(params)
  if (!checked.ok) return checked
  const work = checkWork(tx, { job_type: job.job_type, params: JSON.stringify(checked.value) })
  return work.ok ? checked : work
}

/** Cancels a QUEUED job. A job in flight is stopped with `requestStop`. */
export function cancelJob(scheduler: Scheduler, jobId: string): Decision<StoredJob> {
  const now = nowMs(scheduler)
  return scheduler.db.write((tx) => {
    const cancelled = saveJobCancelled(tx, jobId, now)
    // Not QUEUED any more, so this refuses.
    if (!cancelled) return requireQueued(tx, jobId)
    notifyCancelled(tx, cancelled, 'operator', now)
    settleGroup(scheduler, tx, cancelled, false, now)
    return accept(cancelled)
  })
}

/** Renumbers every priority to 100, 200, 300 … in one transaction. The order stays the same. */
export function normalizeQueue(scheduler: Scheduler): Decision<{ readonly changed: number }> {
  return scheduler.db.write((tx) => {
    const changed = listQueuedPriorities(tx).reduce((sum, priority) => sum + renumberPriority(tx, priority), 0)
    return accept({ changed })
  })
}

/**
 * Repeats a job on request: adds a copy at the end of its priority. The copy does not join the retry chain, whose verdict is
 * final (D3). The old job and its run stay as they are.
 */
export function retryJob(scheduler: Scheduler, jobId: string): Decision<StoredJob> {
  return scheduler.db.write((tx) => {
    const old = requireJob(tx, jobId)
    if (!old.ok) return old
    const outcome = old.value.status === 'CANCELLED' ? 'CANCELLED' : findRunOfJob(tx, jobId)?.status
    if (outcome !== 'FAILED' && outcome !== 'SKIPPED' && outcome !== 'CANCELLED') {
      return refuse(
        'scheduler.job.not_failed',
        'Only a job that failed, was skipped or was cancelled can be repeated.',
        {
          hint: 'Add a new job to do the same work twice.',
          facts: { status: old.value.status, outcome: outcome ?? null },
        },
      )
    }
    const retry = findRetry(tx, jobId)
    if (retry) {
      return refuse('scheduler.job.not_failed', 'The job already has a retry.', {
        hint: 'Look at the newest job of the chain.',
        facts: { retry: retry.job_id },
      })
    }
    const { job_type, template_id, params, priority } = old.value
    return accept(addJob(scheduler, tx, { job_type, template_id, params, priority }))
  })
}
