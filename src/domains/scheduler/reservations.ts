/** Reservations for direct executions: at most one is ACTIVE and pauses the queue until it is released or expires. */
import { z } from 'zod'
import { orNull, timeView } from '#contract'
import { encodeId } from '#kernel/ids'
import { clockMovedBackMs } from '#kernel/lease'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { reserveBody } from './contract.ts'
import { type SqlReader, query, type WriteTx } from './database.ts'
import { checkLimit, parseInput } from './parse-input.ts'
import { notifyCancelled } from './job-group.ts'
import { listWaitingDirect, saveJobCancelled } from './job-repository.ts'
import { notify } from './notifications.ts'
import { nowMs, type Scheduler, type Wait } from './scheduler.ts'
import { defineView, showTime, type StoredReservation } from './stored-rows.ts'

const COLUMNS = `reservation_id, reserved_at, reserved_by, status, expires_at, renewed_at, ended_at`
type ById = { readonly reservation_id: string }

/** Inserts nothing while another reservation is ACTIVE: the partial unique index decides, not an earlier read. */
const insertRow = query<StoredReservation, ById & { reserved_by: string; now: number; expires_at: number }>(`
   insert into direct_reservations (reservation_id, reserved_at, reserved_by, expires_at)
   values ($reservation_id, $now, $reserved_by, $expires_at)
       on conflict (status) where status = 'ACTIVE' do nothing returning ${COLUMNS}`)
const renewRow = query<StoredReservation, ById & { now: number; expires_at: number }>(`
   update direct_reservations set renewed_at = max($now, coalesce(renewed_at, $now)), expires_at = max(expires_at, $expires_at)
    where reservation_id = $reservation_id and status = 'ACTIVE' returning ${COLUMNS}`)
const releaseRow = query<StoredReservation, ById & { now: number }>(`
   update direct_reservations set status = 'RELEASED', ended_at = $now
    where reservation_id = $reservation_id and status = 'ACTIVE' returning ${COLUMNS}`)
const expireRows = query<StoredReservation, { now: number }>(`
   update direct_reservations set status = 'EXPIRED', ended_at = $now
    where status = 'ACTIVE' and expires_at <= $now returning ${COLUMNS}`)
const selectActive = query<StoredReservation>(`select ${COLUMNS} from direct_reservations where status = 'ACTIVE'`)
const selectRow = query<StoredReservation, ById>(
  `select ${COLUMNS} from direct_reservations where reservation_id = $reservation_id`,
)
const selectNewest = query<StoredReservation, { before: string; limit: number }>(
  `select ${COLUMNS} from direct_reservations where reservation_id < $before order by reservation_id desc limit $limit`,
)
const selectDirect = query<{ found: number }, ById>(
  `select exists (select 1 from jobs where status = 'RUNNING' and finished_at is null and reservation_id = $reservation_id) as found`,
)

export function findActiveReservation(reader: SqlReader): StoredReservation | undefined {
  return reader.one(selectActive)
}

function findReservation(reader: SqlReader, reservationId: string): StoredReservation | undefined {
  return reader.one(selectRow, { reservation_id: reservationId })
}

/** Refuses immediately while another is active; `waitForReservation` waits instead. */
export function reserve(scheduler: Scheduler, body: z.input<typeof reserveBody>): Decision<StoredReservation> {
  const parsed = parseInput(reserveBody, body)
  if (!parsed.ok) return parsed
  const { reserved_by, expires_in = scheduler.settings.reservationMs } = parsed.value
  return scheduler.db.write((tx) => {
    const now = nowMs(scheduler)
    // Expires an overdue reservation here, without waiting for the next tick of the dispatcher.
    expireStale(scheduler, tx, now)
    const reservation = tx.one(insertRow, {
      reservation_id: scheduler.deps.newId(),
      reserved_by,
      now,
      expires_at: now + expires_in,
    })
    scheduler.pass('reservation.reserve')
    return reservation ? accept(reservation) : refuseBusy(tx, now)
  })
}

function refuseBusy(tx: WriteTx, now: number): Decision<never> {
  const active = findActiveReservation(tx)
  return refuse(
    'scheduler.reservation.busy',
    `The slot is taken by ${quote(active?.reserved_by ?? 'another caller')}.`,
    {
      hint: 'Wait for it, or try again later.',
      facts: {
        ...(active && {
          expiresAt: new Date(active.expires_at).toISOString(),
          waitMs: Math.max(0, active.expires_at - now),
        }),
      },
    },
  )
}

/** Never shortens a reservation, even if the clock was set back. Also renews an overdue one that is still ACTIVE. */
export function renewReservation(
  scheduler: Scheduler,
  reservationId: string,
  leaseMs?: number,
): Decision<StoredReservation> {
  return scheduler.db.write((tx) => {
    const now = nowMs(scheduler)
    const expires_at = now + (leaseMs ?? scheduler.settings.reservationMs)
    const renewed = tx.one(renewRow, { reservation_id: reservationId, now, expires_at })
    scheduler.pass('reservation.renew')
    return renewed ? accept(renewed) : refuseEnded(tx, reservationId)
  })
}

export function releaseReservation(scheduler: Scheduler, reservationId: string): Decision<StoredReservation> {
  return scheduler.db.write((tx) => {
    if (tx.one(selectDirect, { reservation_id: reservationId })?.found === 1) {
      return refuse('scheduler.reservation.job_in_flight', 'The direct execution of this reservation has not ended.', {
        hint: 'Finish its run first.',
      })
    }
    const now = nowMs(scheduler)
    const released = tx.one(releaseRow, { reservation_id: reservationId, now })
    if (released) cancelWaiting(tx, reservationId, now)
    scheduler.pass('reservation.release')
    return released ? accept(released) : refuseEnded(tx, reservationId)
  })
}

/** Cancels jobs that have not started: without the reservation they could never start. */
function cancelWaiting(tx: WriteTx, reservationId: string, now: number): void {
  for (const job of listWaitingDirect(tx, reservationId)) {
    if (saveJobCancelled(tx, job.job_id, now)) notifyCancelled(tx, job, 'reservation_ended', now)
  }
}

export function refuseEnded(reader: SqlReader, reservationId: string): Decision<never> {
  const reservation = findReservation(reader, reservationId)
  if (!reservation) return refuse('scheduler.reservation.not_found', `There is no reservation ${quote(reservationId)}.`)
  return refuse('scheduler.reservation.ended', 'The reservation has ended or expired.', {
    hint: 'The queue may be running again. Make a new reservation before you continue.',
    facts: { status: reservation.status },
  })
}

/** Moves overdue reservations from ACTIVE to EXPIRED; at every tick of the dispatcher and at the start. */
export function expireStale(scheduler: Scheduler, tx: WriteTx, now: number): StoredReservation[] {
  const expired = tx.all(expireRows, { now })
  for (const { reservation_id, reserved_by, expires_at } of expired) {
    scheduler.pass('reservation.expire')
    cancelWaiting(tx, reservation_id, now)
    const payload = { reservation_id, reserved_by, expires_at }
    notify(tx, { kind: 'reservation_expired', about: reservation_id, payload }, now)
  }
  return expired
}

/** Expires overdue reservations, and warns when the clock is behind the last renewal. */
export function tickReservations(scheduler: Scheduler): Decision<readonly StoredReservation[]> {
  return scheduler.db.write((tx) => {
    const now = nowMs(scheduler)
    const expired = expireStale(scheduler, tx, now)
    warnOfClock(tx, now)
    return accept(expired)
  })
}

/** Notifies when the clock was set back: the reservation then ends later by that much, never earlier. */
function warnOfClock(tx: WriteTx, now: number): void {
  const active = findActiveReservation(tx)
  if (!active) return
  const movedBackMs = clockMovedBackMs(
    {
      holder: active.reserved_by,
      token: active.reservation_id,
      leaseUntil: new Date(active.expires_at),
      heartbeatAt: new Date(active.renewed_at ?? active.reserved_at),
    },
    new Date(now),
  )
  if (movedBackMs === 0) return
  const payload = { reservation_id: active.reservation_id, moved_back_ms: movedBackMs }
  notify(tx, { kind: 'clock_moved_back', about: active.reservation_id, payload }, now)
}

const POLL_MS = 50

/** Polls until `timeoutMs` has passed, then refuses as `reserve` does. Waiting callers are served in no particular order. */
export async function waitForReservation(
  scheduler: Scheduler,
  body: z.input<typeof reserveBody>,
  {
    timeoutMs,
    wait,
    stop,
  }: { readonly timeoutMs: number; readonly wait: Wait; readonly stop?: AbortSignal | undefined },
): Promise<Decision<StoredReservation>> {
  const until = nowMs(scheduler) + timeoutMs
  for (;;) {
    const reserved = reserve(scheduler, body)
    const leftMs = until - nowMs(scheduler)
    if (reserved.ok || reserved.code !== 'scheduler.reservation.busy' || leftMs <= 0) return reserved
    if (stop?.aborted === true) return reserved
    await wait(Math.min(POLL_MS, leftMs), stop)
  }
}

/** Newest first, because ids are ordered by time; `before` is the last id of the previous page. */
export function readReservations(
  scheduler: Scheduler,
  page: { readonly limit?: number; readonly before?: string } = {},
): Decision<readonly StoredReservation[]> {
  const limit = checkLimit(page.limit)
  if (!limit.ok) return limit
  const { before = '~' } = page
  return scheduler.db.read((reader) => accept(reader.all(selectNewest, { before, limit: limit.value })))
}

const reservation = defineView<StoredReservation>()({
  reservation_id: [z.string(), (row) => encodeId('reservation', row.reservation_id)],
  reserved_by: [z.string(), (row) => row.reserved_by],
  status: [z.enum(['ACTIVE', 'RELEASED', 'EXPIRED']), (row) => row.status],
  reserved_at: [timeView(), (row) => showTime(row.reserved_at)],
  expires_at: [timeView(), (row) => showTime(row.expires_at)],
  ended_at: [timeView().nullable(), (row) => orNull(row.ended_at, showTime)],
})
export const reservationView = reservation.schema.meta({ id: 'SchedulerReservation' })
export const toReservationView = reservation.show
