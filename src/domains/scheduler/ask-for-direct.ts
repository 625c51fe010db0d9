/**
 * A direct execution beside a running scheduler. Who asks takes the reservation and puts the job under it, as a row that waits;
 * the owner of the file starts it as soon as nothing else is in flight; who asked keeps the reservation alive and follows the
 * job to its end. Both sides speak through the file alone, so either of them may die at any moment: the reservation runs out,
 * and what has not started by then is cancelled with it.
 */
import type { z } from 'zod'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { cancelJob } from './change-job.ts'
import { directJobBody } from './contract.ts'
import { parseInput } from './parse-input.ts'
import { listWaitingDirect } from './job-repository.ts'
import { type JobReport, readJob } from './list-jobs.ts'
import { findActiveReservation } from './reservation-repository.ts'
import { releaseReservation, renewReservation } from './reservations.ts'
import type { Wait } from './run-child.ts'
import type { ClaimedRun } from './runner-port.ts'
import { nowMs, requireRecovered, type Scheduler } from './scheduler.ts'
import { insertDirect, requireActive, requireFreeSlot, startNow } from './start-direct-job.ts'
import { requestStop } from './stop-request.ts'
import type { StoredJob } from './stored-rows.ts'
import { type Sleep, waitForReservation } from './wait-for-reservation.ts'

export type AskedDirect = { readonly job: StoredJob; readonly reservationId: string }

export type AskForDirect = {
  readonly reservedBy: string
  /** How long it waits while another reservation is active; 0 asks once. */
  readonly timeoutMs: number
  readonly sleep: Sleep
  readonly stop?: AbortSignal
}

/** The caller's half of the bargain is `followDirect`: without it the reservation runs out. */
export async function askForDirect(
  scheduler: Scheduler,
  body: z.input<typeof directJobBody>,
  asked: AskForDirect,
): Promise<Decision<AskedDirect>> {
  const parsed = parseInput(directJobBody, body)
  if (!parsed.ok) return parsed
  const reserved = await waitForReservation(scheduler, { reserved_by: asked.reservedBy }, asked)
  if (!reserved.ok) return reserved
  const reservationId = reserved.value.reservation_id
  const queued = scheduler.db.write((tx) => {
    const active = requireActive(tx, reservationId, nowMs(scheduler))
    return active.ok ? insertDirect(scheduler, tx, reservationId, parsed.value) : active
  })
  if (queued.ok) return accept({ job: queued.value, reservationId })
  releaseReservation(scheduler, reservationId)
  return queued
}

/** The owner's half, in every turn of its loop. One at a time, and never beside a job of the queue. */
export function startAskedDirect(scheduler: Scheduler): Decision<ClaimedRun | undefined> {
  const ready = requireRecovered(scheduler)
  if (!ready.ok) return ready
  const look = scheduler.db.read((reader) => {
    const active = findActiveReservation(reader)
    return active !== undefined && listWaitingDirect(reader, active.reservation_id).length > 0
  })
  if (!look.ok || !look.value) return look.ok ? accept(undefined) : look
  return scheduler.db.write((tx) => {
    const now = nowMs(scheduler)
    const active = findActiveReservation(tx)
    const [job] = active && active.expires_at > now ? listWaitingDirect(tx, active.reservation_id) : []
    if (!active || !job || !requireFreeSlot(tx, active.reservation_id).ok) return accept(undefined)
    return accept(startNow(scheduler, tx, job.job_id, now))
  })
}

export type FollowDirect = {
  readonly wait: Wait
  /** Until when it may wait for its start. */
  readonly startByMs: number
  /** Ends the job, wherever it is. */
  readonly cancel?: AbortSignal
  /** Ends the following alone: what has not started is cancelled, what runs is left to the owner. */
  readonly leave?: AbortSignal
  /** Whether anybody owns the file; asked now and then. */
  readonly isOwned?: () => boolean
}

const LOOK_MS = 50
const OWNER_LOOK_MS = 1_000

export async function followDirect(
  scheduler: Scheduler,
  { job, reservationId }: AskedDirect,
  options: FollowDirect,
): Promise<Decision<JobReport>> {
  const { wait, startByMs, cancel, leave, isOwned } = options
  let renewAtMs = nowMs(scheduler) + scheduler.settings.reservationMs / 3
  let ownerLookAtMs = nowMs(scheduler) + OWNER_LOOK_MS
  let isEndAsked = false
  const over = <T>(decision: Decision<T>): Decision<T> => {
    releaseReservation(scheduler, reservationId)
    return decision
  }
  for (;;) {
    const report = readJob(scheduler, job.job_id)
    if (!report.ok) return report
    const { status, finished_at } = report.value.job
    if (status === 'CANCELLED' || finished_at !== null) return over(report)
    const now = nowMs(scheduler)
    const isWaiting = status === 'QUEUED'
    if (leave?.aborted === true) return isWaiting ? over(withdraw(scheduler, job.job_id)) : report
    if (isWaiting && (now >= startByMs || cancel?.aborted === true)) {
      // Lost to a start in this very moment: then it is followed on.
      const withdrawn = withdraw(scheduler, job.job_id)
      if (withdrawn.ok) return over(cancel?.aborted === true ? withdrawn : refuseLate())
    } else if (!isWaiting && cancel?.aborted === true && !isEndAsked) {
      isEndAsked = requestStop(scheduler, job.job_id).ok
    }
    if (isOwned && now >= ownerLookAtMs) {
      if (!isOwned()) return refuseOwnerGone(scheduler, job.job_id, over)
      ownerLookAtMs = nowMs(scheduler) + OWNER_LOOK_MS
    }
    if (now >= renewAtMs) {
      renewReservation(scheduler, reservationId)
      renewAtMs = now + scheduler.settings.reservationMs / 3
    }
    await wait(LOOK_MS, leave ?? new AbortController().signal)
  }
}

function withdraw(scheduler: Scheduler, jobId: string): Decision<JobReport> {
  const cancelled = cancelJob(scheduler, jobId)
  return cancelled.ok ? accept({ job: cancelled.value, run: null }) : cancelled
}

function refuseLate(): Decision<never> {
  return refuse('scheduler.reservation.slot_taken', 'the slot did not become free in time; nothing was started', {
    hint: 'Wait longer, or try again when what runs has ended.',
  })
}

/** What runs has lost its scheduler; the next start judges it. What waits is taken back, so that another way is open. */
function refuseOwnerGone(
  scheduler: Scheduler,
  jobId: string,
  over: <T>(decision: Decision<T>) => Decision<T>,
): Decision<never> {
  const withdrawn = withdraw(scheduler, jobId)
  const gone = refuse(
    'scheduler.not_running',
    withdrawn.ok ? 'nobody runs this scheduler file any more' : 'the scheduler that ran the job is gone',
    {
      hint: withdrawn.ok ? 'Try again.' : 'The next `concord scheduler run` closes its run.',
      facts: { started: !withdrawn.ok },
    },
  )
  return withdrawn.ok ? over(gone) : gone
}
