/** Changes, moves, cancels and renumbers queued jobs, and repeats jobs that have ended. A dispatched job never changes. */
import type { z } from 'zod'
import { KernelFault } from '#kernel/errors'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { changeJobBody, moveJobBody, placeJobBody } from './contract.ts'
import type { SqlReader, WriteTx } from './database.ts'
import { parseInput } from './parse-input.ts'
import { settleGroup, notifyCancelled } from './job-group.ts'
import { findKeyed, readKey, saveKey } from './job-keys.ts'
import { findRetry, requireJob, requireQueued, saveJobCancelled } from './job-repository.ts'
import { requireTemplate } from './job-template.ts'
import {
  endPosition,
  findPosition,
  listQueuedPriorities,
  type Neighbours,
  planPosition,
  renumberPriority,
  saveParams,
  savePlace,
} from './queue.ts'
import { type CommandLine, digestLines, type Requested, requireRecorded } from './requested.ts'
import { findRunOfJob } from './run-repository.ts'
import { nowMs, type Scheduler } from './scheduler.ts'
import type { StoredJob } from './stored-rows.ts'
import { addJob, checkParams, checkWork } from './submit-job.ts'

/** Replaces the params, checked against the job's template. A new priority puts the job at the end of that priority. */
export function changeJob(
  scheduler: Scheduler,
  jobId: string,
  body: z.input<typeof changeJobBody>,
  requested: Requested = {},
): Decision<StoredJob> {
  const parsed = parseInput(changeJobBody, body)
  if (!parsed.ok) return parsed
  const { params, priority } = parsed.value
  return scheduler.db.write((tx) => {
    const found = requireQueued(tx, jobId)
    if (!found.ok) return found
    let job = found.value
    if (params !== undefined) {
      const changed = prepareChange(tx, job, params)
      if (!changed.ok) return changed
      const recorded = requireRecorded(tx, requested, [changed.value])
      if (!recorded.ok) return recorded
      job = saveParams(tx, jobId, changed.value.params) ?? job
    }
    if (priority !== undefined && priority !== job.priority) {
      const position = endPosition(findPosition(tx, 'last', { priority }, jobId))
      job = savePlace(tx, jobId, { priority, position }) ?? job
    }
    return accept(job)
  })
}

/** What the queued job would run with these params. */
function prepareChange(reader: SqlReader, job: StoredJob, params: JsonObject): Decision<CommandLine> {
  const template = job.template_id === null ? undefined : requireTemplate(reader, job.template_id)
  // An archived template no longer checks params.
  const checked = template?.ok ? checkParams(template.value, params) : accept(params)
  if (!checked.ok) return checked
  return checkWork(reader, { job_type: job.job_type, params: JSON.stringify(checked.value) })
}

export function digestChange(scheduler: Scheduler, jobId: string, params: JsonObject): Decision<string> {
  return scheduler.db.read((reader) => {
    const job = requireJob(reader, jobId)
    if (!job.ok) return job
    const changed = prepareChange(reader, job.value, params)
    return changed.ok ? digestLines(reader, [changed.value]) : changed
  })
}

type Move = z.output<typeof moveJobBody>

export function moveJob(scheduler: Scheduler, jobId: string, body: z.input<typeof moveJobBody>): Decision<StoredJob> {
  const parsed = parseInput(moveJobBody, body)
  if (!parsed.ok) return parsed
  return scheduler.db.write((tx) => {
    const job = requireQueued(tx, jobId)
    if (!job.ok) return job
    const anchor = findAnchor(tx, job.value, parsed.value)
    if (!anchor.ok) return anchor
    if (anchor.value?.job_id === jobId) return job
    const position = findRoom(tx, job.value, parsed.value, anchor.value)
    const moved = savePlace(tx, jobId, { priority: job.value.priority, position })
    return moved ? accept(moved) : requireQueued(tx, jobId)
  })
}

/** Moves a job with one body for every kind of move. A new priority puts the job at the end of that priority. */
export function placeJob(scheduler: Scheduler, jobId: string, body: z.input<typeof placeJobBody>): Decision<StoredJob> {
  const parsed = parseInput(placeJobBody, body)
  if (!parsed.ok) return parsed
  const { to, before, after, priority } = parsed.value
  if ([to, before, after, priority].filter((way) => way !== undefined).length !== 1) {
    return refuse('api.field.value', 'A job can move in only one way at a time.', {
      hint: 'Set exactly one of `to`, `before`, `after` and `priority`.',
    })
  }
  if (priority !== undefined) return changeJob(scheduler, jobId, { priority })
  if (before !== undefined) return moveJob(scheduler, jobId, { before })
  return after === undefined ? moveJob(scheduler, jobId, { to: to ?? 'back' }) : moveJob(scheduler, jobId, { after })
}

/** Returns the job that the move is relative to; undefined for the front and the back. */
function findAnchor(tx: WriteTx, job: StoredJob, move: Move): Decision<StoredJob | undefined> {
  if ('to' in move) return accept(undefined)
  const anchor = requireQueued(tx, 'before' in move ? move.before : move.after)
  if (!anchor.ok || anchor.value.priority === job.priority) return anchor
  return refuse(
    'scheduler.queue.other_priority',
    'The two jobs have different priorities, and the higher one always runs first.',
    {
      hint: 'Give the job the other priority first.',
      facts: { priority: job.priority, other: anchor.value.priority },
    },
  )
}

/** Renumbers the priority first when the gap is used up, which makes room for 99 jobs. */
function findRoom(tx: WriteTx, job: StoredJob, move: Move, anchor: StoredJob | undefined): number {
  const free = planPosition(findNeighbours(tx, job, move, anchor))
  if (free !== undefined) return free
  renumberPriority(tx, job.priority)
  const fresh = anchor && requireQueued(tx, anchor.job_id)
  const room = planPosition(findNeighbours(tx, job, move, fresh?.ok ? fresh.value : undefined))
  if (room === undefined) throw new KernelFault('scheduler.broken', 'A renumbered priority has no room.')
  return room
}

function findNeighbours(
  tx: WriteTx,
  { job_id, priority }: StoredJob,
  move: Move,
  anchor: StoredJob | undefined,
): Neighbours {
  if (!anchor) {
    return 'to' in move && move.to === 'front'
      ? { above: undefined, below: findPosition(tx, 'first', { priority }, job_id) }
      : { above: findPosition(tx, 'last', { priority }, job_id), below: undefined }
  }
  return 'before' in move
    ? { above: findPosition(tx, 'above', anchor, job_id), below: anchor.position }
    : { above: anchor.position, below: findPosition(tx, 'below', anchor, job_id) }
}

/** Exchanges priority and position of two jobs, so every other job keeps its place. */
export function swapJobs(
  scheduler: Scheduler,
  jobId: string,
  otherId: string,
): Decision<readonly [StoredJob, StoredJob]> {
  return scheduler.db.write((tx) => {
    const one = requireQueued(tx, jobId)
    if (!one.ok) return one
    const other = requireQueued(tx, otherId)
    if (!other.ok) return other
    const moved = [savePlace(tx, jobId, other.value), savePlace(tx, otherId, one.value)] as const
    if (moved[0] && moved[1]) return accept([moved[0], moved[1]])
    throw new KernelFault('scheduler.broken', 'A QUEUED job that was read in this transaction no longer exists.')
  })
}

/** Cancels a QUEUED job. A job in flight is stopped with `requestStop`. */
export function cancelJob(scheduler: Scheduler, jobId: string): Decision<StoredJob> {
  const now = nowMs(scheduler)
  return scheduler.db.write((tx) => {
    const cancelled = saveJobCancelled(tx, jobId, now)
    // No longer QUEUED, so this refuses.
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
export function retryJob(
  scheduler: Scheduler,
  jobId: string,
  { idempotencyKey, ...requested }: Requested & { readonly idempotencyKey?: string | undefined } = {},
): Decision<StoredJob> {
  const key = keyOfRetry(jobId, idempotencyKey)
  if (!key.ok) return key
  return scheduler.db.write((tx): Decision<StoredJob> => {
    const first = findKeyed(tx, key.value)
    if (!first.ok) return first
    if (first.value) return accept(first.value)
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
    const recorded = requireRecorded(tx, requested, [old.value])
    if (!recorded.ok) return recorded
    const job = addJob(scheduler, tx, { job_type, template_id, params, priority }, requested)
    saveKey(tx, key.value, job.job_id)
    return accept(job)
  })
}

export function keyOfRetry(jobId: string, idempotencyKey: string | undefined) {
  return readKey(idempotencyKey, { operation: 'retry_job', job_id: jobId })
}
