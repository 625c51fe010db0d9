/**
 * Corrects what was written while the clock was ahead, after it has been set back. `changed_at` in the future proves it: the row keeps the length
 * of its wait, counted from now. An early turn is harmless (R1), a late one is not.
 */
import { AHEAD_MAX_MS, type RepairedTime } from '#kernel/clock'
import { type Db, statement } from '#store'

const now = 'now as materialized (select clock_timestamp() as at)'
const limit = `now.at + make_interval(secs => ${AHEAD_MAX_MS / 1_000})`
const msAfterNow = (time: string) => `(extract(epoch from ${time} - now.at) * 1000)::double precision`
const notAfterNow = (column: string) =>
  `${column} = case when p.${column} is not null then least(p.${column}, now.at) end`

type Ahead = { readonly id: string; readonly ahead_ms: number }

const repairTurns = statement<Ahead>(
  'runtime_repair_turns',
  `with ${now}, ahead as materialized (
     select p.kind, p.id, p.changed_at - now.at as lead, ${msAfterNow('p.changed_at')} as ahead_ms
     from runtime.processes p, now where p.changed_at > ${limit} for update of p
   )
   update runtime.processes p set due_at = p.due_at - ahead.lead, again_at = p.again_at - ahead.lead, changed_at = now.at,
     ${notAfterNow('given_at')}, ${notAfterNow('refused_since')}
   from ahead, now where p.kind = ahead.kind and p.id = ahead.id
   returning p.kind || ':' || p.id as id, ahead.ahead_ms`,
)

/** $1 the lease of a worker in ms. */
const repairLeases = statement<Ahead>(
  'runtime_repair_leases',
  `with ${now}, ahead as materialized (
     select e.executor_id, ${msAfterNow('e.lease_until')} as ahead_ms from runtime.executors e, now
     where e.lease_until > ${limit} + make_interval(secs => $1::double precision / 1000) for update of e
   )
   update runtime.executors e set lease_until = now.at + make_interval(secs => $1::double precision / 1000)
   from ahead, now where e.executor_id = ahead.executor_id
   returning e.executor_id as id, ahead.ahead_ms`,
)

const repairRates = statement(
  'runtime_repair_rates',
  `with ${now} update runtime.rate_marks m set at = now.at from now where m.at > ${limit}`,
)

/** Returns the turns and the workers' leases that it has corrected. */
export async function repairTurnTimes(db: Db, leaseMs: number): Promise<readonly RepairedTime[]> {
  const turns = await db.run(repairTurns, [])
  const leases = await db.run(repairLeases, [leaseMs])
  await db.run(repairRates, [])
  return [
    ...turns.map(({ id, ahead_ms }) => ({ what: 'turn' as const, id, aheadMs: ahead_ms })),
    ...leases.map(({ id, ahead_ms }) => ({ what: 'worker' as const, id, aheadMs: ahead_ms })),
  ]
}

/** $1 kind, $2 count, $3 the first ids, $4 the furthest ahead in ms. */
const insertRepair = statement(
  'runtime_insert_repair',
  'insert into runtime.clock_repairs (what, count, ids, ahead_ms) values ($1, $2, $3, $4)',
)

const IDS_MAX = 20

export async function recordRepair(db: Db, repaired: readonly RepairedTime[]): Promise<void> {
  for (const [what, all] of Object.entries(Object.groupBy(repaired, (each) => each.what))) {
    const ids = all.slice(0, IDS_MAX).map(({ id }) => id)
    await db.run(insertRepair, [what, all.length, ids, Math.max(...all.map(({ aheadMs }) => aheadMs))])
  }
}
