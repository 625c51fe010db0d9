/** A direct execution: a job and a run like any other, outside the order of the queue, so that the record is complete. */
import type { z } from 'zod'
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { startRun } from './claim-next.ts'
import { directJobBody } from './contract.ts'
import type { Tx } from './database.ts'
import { parseInput } from './parse-input.ts'
import { listInFlight, saveStarted } from './job-repository.ts'
import { prepareJob } from './prepare-job.ts'
import { findReservation } from './reservation-repository.ts'
import type { ClaimedRun } from './runner-port.ts'
import { nowMs, requireRecovered, type Scheduler } from './scheduler.ts'
import type { StoredJob, StoredReservation } from './stored-rows.ts'
import { insertNewJob } from './submit-job.ts'

/**
 * Takes the next slot: while a job of the queue is still in flight it is refused as `slot_taken`, and nothing new starts in the
 * meantime, since the reservation holds the queue back. It is never retried by the scheduler: its caller knows best.
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
    const job = insertDirect(scheduler, tx, reservationId, parsed.value)
    if (!job.ok) return job
    const run = startNow(scheduler, tx, job.value.job_id, now)
    if (!run) throw new KernelFault('scheduler.direct', 'params that were just checked cannot be read')
    return accept(run)
  })
}

/** Held for good: no dispatcher takes it, only whoever acts for its reservation. */
export function insertDirect(
  scheduler: Scheduler,
  tx: Tx,
  reservationId: string,
  wanted: z.output<typeof directJobBody>,
): Decision<StoredJob> {
  const prepared = prepareJob(tx, wanted)
  if (!prepared.ok) return prepared
  const job = insertNewJob(tx, {
    job_id: scheduler.deps.newId(),
    ...prepared.value,
    schedule_id: null,
    group_id: null,
    now: nowMs(scheduler),
    group_order: null,
    reservation_id: reservationId,
    hold: 'direct',
    not_before: null,
  })
  return accept(job)
}

/** Undefined when the row cannot be worked on: then it is closed as FAILED. */
export function startNow(scheduler: Scheduler, tx: Tx, jobId: string, now: number): ClaimedRun | undefined {
  const started = saveStarted(tx, jobId, now)
  if (!started) throw new KernelFault('scheduler.direct', 'a job that this transaction found QUEUED could not start')
  scheduler.pass('dispatch.claimed')
  const run = startRun(scheduler, tx, started, now)
  scheduler.pass('dispatch.run_inserted')
  scheduler.pass('dispatch.before_commit')
  return run
}

export function requireActive(tx: Tx, reservationId: string, now: number): Decision<StoredReservation> {
  const reservation = findReservation(tx, reservationId)
  if (!reservation) return refuse('scheduler.reservation.not_found', `there is no reservation ${quote(reservationId)}`)
  if (reservation.status === 'ACTIVE' && reservation.expires_at > now) return accept(reservation)
  return refuse('scheduler.reservation.ended', 'the reservation has ended or run out', {
    hint: 'Reserve anew.',
    facts: { status: reservation.status },
  })
}

/** Direct jobs of reservations that have ended do not count: nobody can tell whether they still run. */
export function requireFreeSlot(tx: Tx, reservationId: string): Decision<undefined> {
  const others = listInFlight(tx).filter((job) => job.reservation_id === null || job.reservation_id === reservationId)
  if (others.length === 0) return accept(undefined)
  return refuse('scheduler.reservation.slot_taken', `${others.length} job in flight must end first`, {
    hint: 'Try again when it has ended; nothing new starts before you.',
    facts: { inFlight: others.map((job) => job.job_id) },
  })
}
