/** The only reader and writer of `direct_reservations`. */
import type { Reader, Tx } from './database.ts'
import { statement } from './statement.ts'
import type { StoredReservation } from './stored-rows.ts'

const COLUMNS = `reservation_id, reserved_at, reserved_by, status, expires_at, renewed_at, ended_at`
type ById = { readonly reservation_id: string }

const insertRow = statement<StoredReservation, ById & { reserved_by: string; now: number; expires_at: number }>(
  'insert_reservation',
  `insert into direct_reservations (reservation_id, reserved_at, reserved_by, expires_at)
   values ($reservation_id, $now, $reserved_by, $expires_at)
       on conflict (status) where status = 'ACTIVE' do nothing returning ${COLUMNS}`,
)
const renewRow = statement<StoredReservation, ById & { now: number; expires_at: number }>(
  'renew_reservation',
  `update direct_reservations set renewed_at = max($now, coalesce(renewed_at, $now)), expires_at = max(expires_at, $expires_at)
    where reservation_id = $reservation_id and status = 'ACTIVE' returning ${COLUMNS}`,
)
const releaseRow = statement<StoredReservation, ById & { now: number }>(
  'release_reservation',
  `update direct_reservations set status = 'RELEASED', ended_at = $now
    where reservation_id = $reservation_id and status = 'ACTIVE' returning ${COLUMNS}`,
)
const expireRows = statement<StoredReservation, { now: number }>(
  'expire_reservations',
  `update direct_reservations set status = 'EXPIRED', ended_at = $now
    where status = 'ACTIVE' and expires_at <= $now returning ${COLUMNS}`,
)
const selectActive = statement<StoredReservation>(
  'select_active_reservation',
  `select ${COLUMNS} from direct_reservations where status = 'ACTIVE'`,
)
const selectRow = statement<StoredReservation, ById>(
  'select_reservation',
  `select ${COLUMNS} from direct_reservations where reservation_id = $reservation_id`,
)
const selectNewest = statement<StoredReservation, { before: string; limit: number }>(
  'select_reservations',
  `select ${COLUMNS} from direct_reservations where reservation_id < $before order by reservation_id desc limit $limit`,
)
const selectDirect = statement<{ found: number }, ById>(
  'select_direct_in_flight',
  `select exists (select 1 from jobs where status = 'RUNNING' and finished_at is null and reservation_id = $reservation_id) as found`,
)

/** Undefined when one is ACTIVE: the partial unique index decides, not a look before. */
export function insertReservation(
  tx: Tx,
  row: ById & { readonly reserved_by: string; readonly now: number; readonly expires_at: number },
): StoredReservation | undefined {
  return tx.one(insertRow, row)
}

export function saveRenewed(
  tx: Tx,
  reservationId: string,
  now: number,
  expiresAt: number,
): StoredReservation | undefined {
  return tx.one(renewRow, { reservation_id: reservationId, now, expires_at: expiresAt })
}

export function saveReleased(tx: Tx, reservationId: string, now: number): StoredReservation | undefined {
  return tx.one(releaseRow, { reservation_id: reservationId, now })
}

export function saveExpired(tx: Tx, now: number): StoredReservation[] {
  return tx.all(expireRows, { now })
}

export function findActiveReservation(reader: Reader): StoredReservation | undefined {
  return reader.one(selectActive)
}

/** Newest first; ids are made in the order of time. */
export function listReservations(reader: Reader, limit: number, before = '~'): StoredReservation[] {
  return reader.all(selectNewest, { before, limit })
}

export function findReservation(reader: Reader, reservationId: string): StoredReservation | undefined {
  return reader.one(selectRow, { reservation_id: reservationId })
}

export function hasDirectJobInFlight(reader: Reader, reservationId: string): boolean {
  return reader.one(selectDirect, { reservation_id: reservationId })?.found === 1
}
