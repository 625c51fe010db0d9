/** Changes the order of the queue: moves one job, or swaps two. No other job changes its place. */
import type { z } from 'zod'
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { changeJob } from './change-job.ts'
import { moveJobBody, placeJobBody } from './contract.ts'
import type { WriteTx } from './database.ts'
import { parseInput } from './parse-input.ts'
import { requireQueued } from './job-repository.ts'
import { findPosition, type Neighbours, planPosition, renumberPriority, savePlace } from './queue.ts'
import type { Scheduler } from './scheduler.ts'
import type { StoredJob } from './stored-rows.ts'

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
    throw new KernelFault('scheduler.broken', 'A QUEUED job that was read in this transaction is gone.')
  })
}
