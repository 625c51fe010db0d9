/** Changes of a job that waits: its params, its priority, or the end of its waiting. A dispatched job changes no more. */
import type { z } from 'zod'
import { KernelFault } from '#kernel/errors'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, type Refusal } from '#kernel/refusal'
import { changeJobBody } from './contract.ts'
import type { Tx } from './database.ts'
import { parseInput } from './parse-input.ts'
import { requireQueued, saveCancelled } from './job-repository.ts'
import { checkParams, checkWork } from './prepare-job.ts'
import { endPosition } from './queue-position.ts'
import { findLastPosition, listQueuedPriorities, renumberPriority, saveParams, savePlace } from './queue-repository.ts'
import { nowMs, type Scheduler } from './scheduler.ts'
import { settleGroup, tellCancelled } from './settle-group.ts'
import type { StoredJob } from './stored-rows.ts'
import { requireTemplate } from './template-repository.ts'

/** New params replace the old ones and are checked by the job's template; a new priority puts the job at its end. */
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
    if (priority !== undefined && priority !== job.priority) job = changePriority(tx, job, priority)
    return accept(job)
  })
}

function checkForTemplate(tx: Tx, job: StoredJob, params: JsonObject): Decision<JsonObject> {
  const template = job.template_id === null ? undefined : requireTemplate(tx, job.template_id)
  // An archived template has no say any more.
  const checked = template?.ok ? checkParams(template.value, params) : accept(params)
  if (!checked.ok) return checked
  const work = checkWork(tx, { job_type: job.job_type, params: JSON.stringify(checked.value) })
  return work.ok ? checked : work
}

function changePriority(tx: Tx, job: StoredJob, priority: number): StoredJob {
  const position = endPosition(findLastPosition(tx, priority, job.job_id))
  return savePlace(tx, job.job_id, { priority, position }) ?? job
}

/** Only a QUEUED job is cancelled; one in flight is stopped by ending its run. */
export function cancelJob(scheduler: Scheduler, jobId: string): Decision<StoredJob> {
  const now = nowMs(scheduler)
  return scheduler.db.write((tx) => {
    const cancelled = saveCancelled(tx, jobId, now)
    if (!cancelled) return refused(requireQueued(tx, jobId))
    tellCancelled(tx, cancelled, 'operator', now)
    settleGroup(scheduler, tx, cancelled, false, now)
    return accept(cancelled)
  })
}

/** Gives every priority the positions 100, 200, 300 … in one transaction; the order stays as it is. */
export function normalizeQueue(scheduler: Scheduler): Decision<{ readonly changed: number }> {
  return scheduler.db.write((tx) => {
    const changed = listQueuedPriorities(tx).reduce((sum, priority) => sum + renumberPriority(tx, priority), 0)
    return accept({ changed })
  })
}

function refused(decision: Decision<StoredJob>): Refusal {
  if (decision.ok) throw new KernelFault('scheduler.broken', 'a QUEUED job could not be cancelled')
  return decision
}
