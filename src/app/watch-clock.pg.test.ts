/** Rows as a clock that was two hours ahead would have written them: a process that starts corrects them. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createCommandSchedule } from '#domains/command-schedules'
import { repairCommandTimes } from '#domains/commands'
import { byPerson } from '#kernel/actor'
import { openScheduleBench, type ScheduleBench } from '#test/schedules'
import { accepted, TRACE } from '#test/tenant'
import { until } from '#test/until'
import { openLog } from './log.ts'
import { openClockWatch, watchNow } from './watch-clock.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000

type Row = Readonly<Record<'length_ms' | 'ahead_ms', number>>

describe('a start after the clock was set back', () => {
  let bench: ScheduleBench
  before(async () => {
    bench = await openScheduleBench()
  })
  after(() => bench.close())

  test('[M2] an approval, its command and its turn keep their length, and an abort stays', async () => {
    const { db } = bench.opened
    const { writer } = bench.tenant.people
    const input = { name: 'asked', command_type: 'asked_tick', cron: '* * * * *', payload: { note: 'n' } }
    const schedule = { ...input, workspaceId: bench.tenant.workspace.id, overlap: 'allow', misfire: 'all' } as const
    accepted(await createCommandSchedule(bench.work().schedules, byPerson(writer.principal, TRACE), schedule))
    await bench.pass(2 * MINUTE_MS)
    const waiting = async () =>
      (await bench.commands()).filter(({ status }) => status === 'waiting_for_approval').map((row) => row.command_id)
    await until(async () => (await waiting()).length >= 2, 'two approvals')
    const [dead, aborted] = await waiting()
    await db.query(
      `update concord.approvals set created_at = created_at + interval '2 hours', expires_at = expires_at + interval '2 hours'`,
    )
    await db.query(
      `update concord.commands set updated_at = now() + interval '2 hours', run_after = now() + interval '2 hours 10 seconds',
         turn_token = case command_id when $1 then 'ffffffff-ffff-8000-8000-000000000001'::uuid when $2 then 'ffffffff-ffff-ffff-ffff-ffffffffffff' end,
         turn_until = case command_id when $1 then now() + interval '2 hours' when $2 then '9999-12-31'::timestamptz end
       where command_id in ($1, $2)`,
      [dead, aborted],
    )
    await bench.restart()
    const read = (text: string) => db.query<Row>(text)
    const approvals = () =>
      read(`select (extract(epoch from expires_at - created_at) * 1000)::double precision as length_ms,
        (extract(epoch from created_at - clock_timestamp()) * 1000)::double precision as ahead_ms from concord.approvals`)
    await until(async () => (await approvals()).every(({ ahead_ms }) => ahead_ms <= 0), 'the approvals')
    // A day, counted from the statement; `created_at` is the begin of its transaction.
    for (const { length_ms } of await approvals()) assert.ok(Math.abs(length_ms - 86_400_000) < MINUTE_MS)
    const ends = await db.query<{ command_id: string; is_ahead: boolean; until: Date | null }>(
      `select command_id, run_after > clock_timestamp() + interval '1 minute' or updated_at > clock_timestamp() as is_ahead, turn_until as until
       from concord.commands where command_id in ($1, $2)`,
      [dead, aborted],
    )
    assert.deepEqual(new Set(ends.map(({ is_ahead }) => is_ahead)), new Set([false]))
    const untilOf = (id: string | undefined) => ends.find(({ command_id }) => command_id === id)?.until
    assert.ok((untilOf(dead)?.getTime() ?? 0) < Date.now() + MINUTE_MS)
    assert.equal(untilOf(aborted)?.getUTCFullYear(), 9999)
  })

  test('[M2] a process whose own clock is behind corrects no time that is right', async () => {
    const { db } = bench.opened
    const times = () => db.query(`select command_id, updated_at, run_after from concord.commands order by command_id`)
    const repair = (ms: number) =>
      repairCommandTimes({ ...bench.work().commands, now: () => new Date(Date.now() + ms) })
    await db.query(`update concord.commands set updated_at = now(), run_after = now() + interval '1 hour'
      where status = 'waiting_for_approval'`)
    const before = await times()
    assert.deepEqual([await repair(-2 * HOUR_MS), await repair(-3_000)], [[], []])
    assert.deepEqual(await times(), before)
    // What lies ahead of both clocks is corrected by the later one.
    await db.query(`update concord.commands set updated_at = updated_at + interval '2 hours', run_after = run_after + interval '2 hours'
      where status = 'waiting_for_approval'`)
    const repaired = await repair(-HOUR_MS)
    assert.ok(repaired.length > 0)
    for (const { aheadMs } of repaired) assert.ok(aheadMs > HOUR_MS && aheadMs <= 2 * HOUR_MS)
    const [left] = await db.query<{ ahead: number }>(
      `select count(*)::integer as ahead from concord.commands where updated_at > clock_timestamp() or run_after > clock_timestamp() + interval '1 hour'`,
    )
    assert.equal(left?.ahead, 0)
  })

  test('[M2] a clock that was ahead only between two readings has been set back all the same', async () => {
    let aheadMs = 0
    let corrections = 0
    const clock = () => new Date(Date.now() + aheadMs)
    const { now, latest } = watchNow(clock)
    const read = openClockWatch({
      db: bench.opened.db,
      now: clock,
      latest,
      log: openLog('silent'),
      runtime: { repairTimes: () => Promise.resolve([]) },
      repairs: [() => Promise.resolve([]).finally(() => (corrections += 1))],
    })
    await read()
    await read()
    assert.equal(corrections, 1, 'a clock that goes on is corrected at the start alone')
    aheadMs = HOUR_MS
    now()
    aheadMs = 0
    await read()
    assert.equal(corrections, 2)
  })
})
