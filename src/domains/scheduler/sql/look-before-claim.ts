/** Everything a claim must know first, in one look: the reservation, what is in flight, and whether a delayed job is due. */
import { statement } from '../statement.ts'

export type BeforeClaim = {
  /** Of the active reservation; null: there is none. */
  readonly reserved_until: number | null
  /** Jobs of the queue that hold a worker; a direct execution holds the reservation instead. */
  readonly in_flight: number
  readonly delayed_until: number | null
}

/** By its index, named: left to choose, SQLite reads every held job, and a long sequential group holds thousands. */
export const lookBeforeClaim = statement<BeforeClaim>(
  'look_before_claim',
  `select (select max(expires_at) from direct_reservations where status = 'ACTIVE') as reserved_until,
          (select count(*) from jobs where status = 'RUNNING' and finished_at is null and hold is not 'direct') as in_flight,
          (select min(not_before) from jobs indexed by jobs_delayed_ix where status = 'QUEUED' and hold = 'delay') as delayed_until`,
)
