/** The schedules of the book: one row each, which the schedule's own turns read and write under its lock. */
import { AHEAD_MAX_MS, type RepairedTime } from '#kernel/clock'
import { accept, type Decision } from '#kernel/refusal'
import {
  decideSchedule,
  type Next,
  nextFiringAt,
  planSchedule,
  SCHEDULE_KIND,
  type ScheduleLine,
  type RuntimeSchedule,
  type ScheduleView,
  type WakeOptions,
} from '#runtime'
import type { Db, Sql } from '#store'
import type { Wake } from './waker.ts'

type StoredSchedule = {
  readonly spec: RuntimeSchedule
  readonly decided_until: Date
  readonly last_due_at: Date | null
  readonly held_due_at: Date | null
  readonly fired_count: string
  readonly missed_count: string
  readonly open_count: string
  readonly now: Date
}

/** Counts firings that have not ended; an aborted one does not count, since it would block the next one forever. */
const SELECT = `select s.spec, s.decided_until, s.last_due_at, s.held_due_at, s.fired_count, s.missed_count, clock_timestamp() as now,
    (select count(*) from runtime.processes p where p.schedule = s.name and p.state <> 'aborted') as open_count
  from runtime.schedules s where s.name = $1`

type ScheduleRows = {
  save(spec: RuntimeSchedule): Promise<Decision<ScheduleView>>
  find(name: string): Promise<ScheduleView | undefined>
  delete(name: string): Promise<boolean>
  drive(name: string): Promise<Next>
  /** Wakes the schedules that have decided about due times in the future; their turns decide again. */
  repair(): Promise<readonly RepairedTime[]>
}

/** `aheadMs` moves the schedules' clock forward, for tests of hours and days. */
export function openScheduleRows(db: Db, wake: Wake, aheadMs: () => number): ScheduleRows {
  const later = (time: Date) => new Date(time.getTime() + aheadMs())

  async function find(
    sql: Sql,
    name: string,
    lock = '',
  ): Promise<{ line: ScheduleLine; openCount: number; now: Date } | undefined> {
    const [row] = await sql.query<StoredSchedule>(`${SELECT} ${lock}`, [name])
    if (!row) return undefined
    const line: ScheduleLine = {
      spec: row.spec,
      decidedUntil: row.decided_until,
      lastDueAt: row.last_due_at,
      heldDueAt: row.held_due_at,
      firedCount: Number(row.fired_count),
      missedCount: Number(row.missed_count),
    }
    return { line, openCount: Number(row.open_count), now: later(row.now) }
  }

  function viewOf({ line, openCount }: { line: ScheduleLine; openCount: number }): ScheduleView {
    const { spec, lastDueAt, firedCount, missedCount } = line
    return { spec, lastDueAt, nextDueAt: nextFiringAt(line), firedCount, missedCount, openCount }
  }

  return {
    async save(spec) {
      const [row] = await db.query<{ now: Date }>('select clock_timestamp() as now')
      const decision = decideSchedule(spec, later(row?.now ?? new Date()))
      if (!decision.ok) return decision
      await db.query(
        `insert into runtime.schedules (name, spec, decided_until) values ($1, $2, $3)
         on conflict (name) do update set spec = excluded.spec`,
        [spec.name, JSON.stringify(spec), decision.value.decidedUntil],
      )
      await wake({ kind: SCHEDULE_KIND, id: spec.name }, {})
      const found = await find(db, spec.name)
      return accept(viewOf(found ?? { line: decision.value, openCount: 0 }))
    },
    async find(name) {
      const found = await find(db, name)
      return found && viewOf(found)
    },
    async delete(name) {
      const gone = await db.query('delete from runtime.schedules where name = $1 returning name', [name])
      return gone.length > 0
    },
    drive: (name) =>
      db.transaction(async (tx) => {
        const found = await find(tx, name, 'for update of s')
        if (!found) return { t: 'done' }
        const { line, fire, next } = planSchedule(found.line, found.openCount, found.now)
        await tx.query(
          `update runtime.schedules set decided_until = $2, last_due_at = $3, held_due_at = $4, fired_count = $5, missed_count = $6
           where name = $1`,
          [name, line.decidedUntil, line.lastDueAt, line.heldDueAt, line.firedCount, line.missedCount],
        )
        const { kind, queue } = line.spec
        const options: WakeOptions = { tx, ...(queue === undefined ? {} : { queue }) }
        for (const { id } of fire) await wake({ kind, id }, options, { schedule: name })
        // The due time follows the schedules' clock, the turn the store's clock.
        const until = next.t === 'wait' && next.until !== null ? new Date(next.until.getTime() - aheadMs()) : null
        return { t: 'wait', until }
      }),
    async repair() {
      const rows = await db.query<{ name: string; ahead_ms: number }>(
        `select s.name, (extract(epoch from s.decided_until - clock_timestamp()) * 1000)::double precision - $1::double precision as ahead_ms
         from runtime.schedules s where s.decided_until > clock_timestamp() + make_interval(secs => ($1::double precision + ${AHEAD_MAX_MS}) / 1000)`,
        [aheadMs()],
      )
      for (const { name } of rows) await wake({ kind: SCHEDULE_KIND, id: name }, {})
      return rows.map(({ name, ahead_ms }) => ({ what: 'schedule', id: name, aheadMs: ahead_ms }))
    },
  }
}
