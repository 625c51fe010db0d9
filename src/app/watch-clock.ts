/** Notices that the clock was set back, corrects what was written while it was ahead, and says for `concord doctor` what that was. */
import { AHEAD_MAX_MS, type Clock, type RepairedTime } from '#kernel/clock'
import { formatInstant } from '#kernel/instant'
import type { Runtime } from '#runtime'
import type { Db, Sql } from '#store'
import type { Log } from './log.ts'

type Watched = {
  readonly db: Db
  readonly now: Clock
  /** The latest time that this process has used since the last reading. */
  readonly latest: () => number
  readonly log: Log
  readonly runtime: Pick<Runtime, 'repairTimes'>
  /** The corrections of each room. */
  readonly repairs: readonly (() => Promise<readonly RepairedTime[]>)[]
}

/** Returns the clock, and a function that gives the latest time it has returned since that function was last called. */
export function watchNow(clock: Clock): { readonly now: Clock; readonly latest: () => number } {
  let latestMs = 0
  return {
    now() {
      const at = clock()
      latestMs = Math.max(latestMs, at.getTime())
      return at
    },
    latest() {
      const found = latestMs
      latestMs = 0
      return found
    },
  }
}

/** A write that began before the clock was set back may commit after it, so the corrections are repeated for this many readings. */
const REPEATS = 30

/**
 * Returns the work of one reading. The first one corrects too: the clock may have been set back while no server ran. A clock that reads
 * earlier than before was set back, whichever one it is: that of the database or that of this process.
 */
export function openClockWatch({ db, now, latest, log, runtime, repairs }: Watched): () => Promise<void> {
  let last = { database: 0, own: 0 }
  let left = 1
  return async () => {
    const [row] = await db.query<{ at: Date }>('select clock_timestamp() as at')
    const read = { database: row?.at.getTime() ?? 0, own: now().getTime() }
    // A clock that was ahead only between two readings has been used all the same.
    const own = Math.max(last.own, latest())
    if (read.database < last.database || read.own < own) left = REPEATS
    last = read
    if (left === 0) return
    const inRooms: RepairedTime[] = []
    for (const repair of repairs) inRooms.push(...(await repair()))
    const repaired = await runtime.repairTimes(inRooms)
    left -= 1
    if (repaired.length > 0)
      log.warn({ times: repaired.length }, 'the clock was set back; times that lay ahead of it were corrected')
  }
}

type Repair = {
  readonly what: string
  readonly count: number
  readonly first_id: string
  readonly ahead_ms: number
  readonly last_at: Date
}

/** Names a schedule and a turn that wait for a time that was recorded while the clock was ahead. */
export async function listAhead(sql: Sql): Promise<readonly string[]> {
  const limit = `clock_timestamp() + make_interval(secs => ${AHEAD_MAX_MS / 1_000})`
  const rows = await sql.query<{ name: string }>(
    `(select 'schedule ' || name as name from runtime.schedules where decided_until > ${limit} limit 1)
     union all (select kind || ' ' || id from runtime.processes where changed_at > ${limit} limit 1)`,
  )
  return rows.map(({ name }) => name)
}

/** Says what was corrected the last time, which takes less than an hour; undefined if nothing ever was. */
export async function sayLastRepair(sql: Sql): Promise<string | undefined> {
  const [table] = await sql.query<{ exists: boolean }>(
    `select to_regclass('runtime.clock_repairs') is not null as exists`,
  )
  if (table?.exists !== true) return undefined
  const repairs = await sql.query<Repair>(
    `select r.what, sum(r.count)::integer as count, min(r.ids[1]) as first_id, max(r.ahead_ms) as ahead_ms, max(r.repaired_at) as last_at
     from runtime.clock_repairs as r where r.repaired_at > (select max(l.repaired_at) - interval '1 hour' from runtime.clock_repairs as l)
     group by r.what order by r.what`,
  )
  const [first] = repairs
  if (!first) return undefined
  const parts = repairs.map(({ what, count, first_id }) =>
    count === 1 ? `1 ${what} (${first_id})` : `${count} ${what}s (such as ${first_id})`,
  )
  const seconds = Math.round(Math.max(...repairs.map(({ ahead_ms }) => ahead_ms)) / 1_000)
  return `was set back; times up to ${seconds} s ahead of it were corrected at ${formatInstant(first.last_at)}: ${parts.join(', ')}`
}
