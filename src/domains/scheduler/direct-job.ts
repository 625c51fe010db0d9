/**
 * Direct executions: jobs that run outside the queue order, under a reservation, and are recorded like any other job. Starts
 * them in this process, or asks the owner of the file to start them and follows them to their end.
 */
import type { z } from 'zod'
import { KernelFault } from '#kernel/errors'
import { encodeId } from '#kernel/ids'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { cancelJob } from './change-job.ts'
import { startRun } from './claim-next.ts'
import { directJobBody } from './contract.ts'
import type { WriteTx } from './database.ts'
import { parseInput } from './parse-input.ts'
import { type FinishedRun, finishRunSurely, type OutcomeAlert } from './finish-run.ts'
import { findKeyed, readKey, saveKey } from './job-keys.ts'
import { listInFlight, listWaitingDirect, saveStarted } from './job-repository.ts'
import { type JobReport, readJob } from './job-views.ts'
import { type Requested, requireRecorded } from './requested.ts'
import {
  findActiveReservation,
  refuseEnded,
  releaseReservation,
  renewReservation,
  waitForReservation,
} from './reservations.ts'
import { type JobDeps, type RunningJob, startJob } from './run-job.ts'
import type { ClaimedRun } from './runner-settings.ts'
import { nowMs, requireRecovered, type Scheduler, type Wait } from './scheduler.ts'
import { removeRunRequests, requestStop } from './run-files.ts'
import type { StoredJob, StoredReservation } from './stored-rows.ts'
import { insertNewJob, prepareJob } from './submit-job.ts'

/**
 * Takes the slot. Refuses with `slot_taken` while a queued job is in flight; no new job starts meanwhile, because the
 * reservation pauses the queue. The scheduler never retries a direct execution: that is up to the caller.
 */
export function startDirectJob(
  scheduler: Scheduler,
  reservationId: string,
  body: z.input<typeof directJobBody>,
): Decision<ClaimedRun> {
  const ready = requireRecovered(scheduler)
  if (!ready.ok) return ready
  const parsed = parseInput(directJobBody, body)
  if (!parsed.ok) return parsed
  return scheduler.db.write((tx) => {
    const now = nowMs(scheduler)
    const reservation = requireActive(tx, reservationId, now)
    if (!reservation.ok) return reservation
    const free = requireFreeSlot(tx, reservationId)
    if (!free.ok) return free
    const job = insertDirect(scheduler, tx, reservationId, parsed.value, {})
    if (!job.ok) return job
    const run = startNow(scheduler, tx, job.value.job_id, now)
    if (!run) throw new KernelFault('scheduler.direct', 'Params that were just checked cannot be read.')
    return accept(run)
  })
}

/** The hold is permanent: the dispatcher never takes the job, only a start under its reservation does. */
function insertDirect(
  scheduler: Scheduler,
  tx: WriteTx,
  reservationId: string,
  wanted: z.output<typeof directJobBody>,
  { jobId = scheduler.deps.newId(), requestedBy = null, ...requested }: Requested,
): Decision<StoredJob> {
  const key = keyOfDirect(wanted)
  if (!key.ok) return key
  const first = findKeyed(tx, key.value)
  if (!first.ok) return first
  if (first.value) return refuseRepeated(first.value)
  const prepared = prepareJob(tx, wanted)
  if (!prepared.ok) return prepared
  const recorded = requireRecorded(tx, requested, [prepared.value])
  if (!recorded.ok) return recorded
  const job = insertNewJob(tx, {
    job_id: jobId,
    requested_by: requestedBy,
    ...prepared.value,
    schedule_id: null,
    group_id: null,
    now: nowMs(scheduler),
    group_order: null,
    reservation_id: reservationId,
    hold: 'direct',
    not_before: null,
  })
  saveKey(tx, key.value, job.job_id)
  return accept(job)
}

export function keyOfDirect({ idempotency_key, ...wanted }: z.output<typeof directJobBody>) {
  return readKey(idempotency_key, { operation: 'run_directly', ...wanted })
}

/** A direct execution belongs to the caller that started it; a repeat reads its job (`readKeyed`) and follows nothing. */
function refuseRepeated({ job_id }: StoredJob): Decision<never> {
  return refuse('scheduler.job.repeated', 'A direct execution with this key exists.', {
    facts: { job_id: encodeId('job', job_id) },
  })
}

/** Returns undefined for a row with unreadable params, which is closed as FAILED. */
function startNow(scheduler: Scheduler, tx: WriteTx, jobId: string, now: number): ClaimedRun | undefined {
  const started = saveStarted(tx, jobId, now)
  if (!started) throw new KernelFault('scheduler.direct', 'A job that this transaction found QUEUED could not start.')
  scheduler.pass('dispatch.claimed')
  const run = startRun(scheduler, tx, started, now)
  scheduler.pass('dispatch.run_inserted')
  scheduler.pass('dispatch.before_commit')
  return run
}

function requireActive(tx: WriteTx, reservationId: string, now: number): Decision<StoredReservation> {
  const active = findActiveReservation(tx)
  const isValid = active?.reservation_id === reservationId && active.expires_at > now
  return isValid ? accept(active) : refuseEnded(tx, reservationId)
}

/** Ignores direct jobs of ended reservations: whether they still run is unknown. */
function requireFreeSlot(tx: WriteTx, reservationId: string): Decision<undefined> {
  const others = listInFlight(tx).filter((job) => job.reservation_id === null || job.reservation_id === reservationId)
  if (others.length === 0) return accept(undefined)
  return refuse('scheduler.reservation.slot_taken', `${others.length} job in flight must end first.`, {
    hint: 'Try again when it has ended. No other job starts before yours.',
    facts: { inFlight: others.map((job) => job.job_id) },
  })
}

/**
 * A direct execution while a scheduler runs. The caller takes the reservation and inserts the job under it. The owner
 * of the file starts the job as soon as nothing else is in flight. The caller renews the reservation and follows the
 * job to its end. Both sides communicate through the file alone, so either may die at any moment: the reservation then expires, and a job
 * that has not started is cancelled with it.
 */
export type AskedDirect = { readonly job: StoredJob; readonly reservationId: string }

export type AskForDirect = Requested & {
  readonly reservedBy: string
  /** How long to wait while another reservation is active; 0 tries once. */
  readonly timeoutMs: number
  readonly wait: Wait
  readonly stop?: AbortSignal
}

/** The caller must then call `followDirect`, otherwise the reservation expires. */
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
    return active.ok ? insertDirect(scheduler, tx, reservationId, parsed.value, asked) : active
  })
  if (queued.ok) return accept({ job: queued.value, reservationId })
  releaseReservation(scheduler, reservationId)
  return queued
}

/** Called by the owner in every turn of its loop. Starts one job at a time, never while a queued job runs. */
export function startAskedDirect(scheduler: Scheduler): Decision<ClaimedRun | undefined> {
  const ready = requireRecovered(scheduler)
  if (!ready.ok) return ready
  const look = scheduler.db.read((reader) => {
    const active = findActiveReservation(reader)
    return accept(active !== undefined && listWaitingDirect(reader, active.reservation_id).length > 0)
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
  /** The latest time for the start. */
  readonly startByMs: number
  /** Ends the job, queued or running. */
  readonly cancel?: AbortSignal
  /** Stops following: cancels a job that has not started and leaves a running one to the owner. */
  readonly leave?: AbortSignal
  /** Whether a process owns the file; polled every second. */
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
      // A refusal means that the job started just now; then the loop continues to follow it.
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
    await wait(LOOK_MS, leave)
  }
}

function withdraw(scheduler: Scheduler, jobId: string): Decision<JobReport> {
  const cancelled = cancelJob(scheduler, jobId)
  return cancelled.ok ? accept({ job: cancelled.value, run: null }) : cancelled
}

function refuseLate(): Decision<never> {
  return refuse('scheduler.reservation.slot_taken', 'The slot did not become free in time. Nothing was started.', {
    hint: 'Wait longer, or try again when the running job has ended.',
  })
}

/** Withdraws a job that has not started, so that the caller can run it another way. Recovery closes one that runs. */
function refuseOwnerGone(
  scheduler: Scheduler,
  jobId: string,
  over: <T>(decision: Decision<T>) => Decision<T>,
): Decision<never> {
  const withdrawn = withdraw(scheduler, jobId)
  const gone = refuse(
    'scheduler.not_running',
    withdrawn.ok ? 'No process runs this scheduler file now.' : 'The scheduler that ran the job has ended.',
    {
      hint: withdrawn.ok ? 'Try again.' : 'The next `concord scheduler run` closes its run.',
      facts: { started: !withdrawn.ok },
    },
  )
  return withdrawn.ok ? over(gone) : gone
}

/**
 * Runs a direct execution from start to end in this process: reserves the slot, which pauses the queue, does the work, and renews
 * the reservation while the work runs.
 */
export type RunDirect = {
  readonly deps: JobDeps
  readonly reservedBy: string
  /** How long to wait for the slot: for other direct executions and for queued jobs in flight. */
  readonly timeoutMs: number
  readonly stop: AbortSignal
  readonly onStart?: (job: RunningJob) => void
  readonly alert: (alert: OutcomeAlert) => void
}

export async function runDirect(
  scheduler: Scheduler,
  body: z.input<typeof directJobBody>,
  { deps, reservedBy, timeoutMs, stop, onStart, alert }: RunDirect,
): Promise<Decision<FinishedRun>> {
  const { wait } = deps
  const until = nowMs(scheduler) + timeoutMs
  const reserved = await waitForReservation(scheduler, { reserved_by: reservedBy }, { timeoutMs, wait })
  if (!reserved.ok) return reserved
  const { reservation_id } = reserved.value
  const started = await startInSlot(scheduler, reservation_id, body, { until, wait })
  if (!started.ok) {
    releaseReservation(scheduler, reservation_id)
    return started
  }
  const job = startJob(scheduler, deps, started.value)
  onStart?.(job)
  const end = () => job.end('stopped')
  stop.addEventListener('abort', end, { once: true })
  if (stop.aborted) end()
  const over = new AbortController()
  const renewing = renewUntil(scheduler, reservation_id, wait, over.signal)
  const outcome = await job.ended.finally(() => over.abort())
  scheduler.pass('run.ended')
  stop.removeEventListener('abort', end)
  const finished = await finishRunSurely(scheduler, started.value.runId, outcome, { wait, alert })
  if (finished.ok) removeRunRequests(deps.runFolder, started.value.runId)
  await renewing
  releaseReservation(scheduler, reservation_id)
  return finished.ok ? accept(finished.value) : finished
}

async function startInSlot(
  scheduler: Scheduler,
  reservationId: string,
  body: z.input<typeof directJobBody>,
  { until, wait }: { readonly until: number; readonly wait: Wait },
): Promise<Decision<ClaimedRun>> {
  for (;;) {
    const started = startDirectJob(scheduler, reservationId, body)
    const isTaken = !started.ok && started.code === 'scheduler.reservation.slot_taken'
    if (!isTaken || nowMs(scheduler) >= until) return started
    renewReservation(scheduler, reservationId)
    await wait(LOOK_MS)
  }
}

/** Renews after every third of the lifetime, so two renewals may fail before the reservation expires. */
async function renewUntil(scheduler: Scheduler, reservationId: string, wait: Wait, over: AbortSignal) {
  while (!over.aborted) {
    await wait(scheduler.settings.reservationMs / 3, over)
    if (!over.aborted) renewReservation(scheduler, reservationId)
  }
}
