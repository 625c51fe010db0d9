/** A time is believed unless its row was written in the future, whatever its length and however far the clock was ahead. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import fc from 'fast-check'
import { openTestDb, type TestDb } from '#test/database'
import { installBook } from './install.ts'
import { recordRepair, repairTurnTimes } from './repair-times.ts'

const LEASE_MS = 3_000
const DAY_MS = 86_400_000

describe('times ahead of the clock', () => {
  let opened: TestDb
  before(async () => {
    opened = await openTestDb()
    await installBook(opened.db)
  })
  after(() => opened.close())

  test('[M2] a wait keeps its length, counted from now, if it was written in the future, and else its time', async () => {
    const { db } = opened
    /** Written before now, or while the clock was ahead: by more than clocks differ. */
    const writtenMs = fc.oneof(fc.integer({ min: -DAY_MS, max: 0 }), fc.integer({ min: 5_000, max: 400 * DAY_MS }))
    const waits = fc.array(fc.record({ writtenMs, lengthMs: fc.integer({ min: 0, max: 366 * DAY_MS }) }), {
      minLength: 1,
      maxLength: 20,
    })
    await fc.assert(
      fc.asyncProperty(waits, async (rows) => {
        const [written, lengths] = [rows.map((row) => row.writtenMs), rows.map((row) => row.lengthMs)]
        await db.query('truncate runtime.processes')
        await db.query(
          `insert into runtime.processes (kind, id, state, turn, due_at, queue, priority, changed_at)
           select 'k', w.n::text, 'queued', w.n, clock_timestamp() + (w.written + w.length) * interval '1 millisecond', 'q', 0,
             clock_timestamp() + w.written * interval '1 millisecond'
           from unnest($1::double precision[], $2::double precision[]) with ordinality as w (written, length, n)`,
          [written, lengths],
        )
        const read = () =>
          db.query<{ due_at: Date; left_ms: number; is_ahead: boolean }>(
            `select due_at, (extract(epoch from due_at - changed_at) * 1000)::double precision as left_ms,
               changed_at > clock_timestamp() as is_ahead
             from runtime.processes order by id::integer`,
          )
        const known = await read()
        const repaired = await repairTurnTimes(db, LEASE_MS)
        assert.equal(repaired.length, written.filter((ms) => ms > 0).length)
        const now = await read()
        for (const [index, row] of rows.entries()) {
          const [was, is] = [known[index], now[index]]
          assert.ok(was && is && !is.is_ahead)
          if (row.writtenMs <= 0) assert.deepEqual(is.due_at, was.due_at)
          else assert.ok(Math.abs(is.left_ms - row.lengthMs) < 1, `${is.left_ms} of ${row.lengthMs}`)
        }
        assert.deepEqual(await repairTurnTimes(db, LEASE_MS), [])
      }),
      { numRuns: 20 },
    )
  })

  test('[M2] a lease, a hand-over and a rate are at most their own length ahead', async () => {
    const { db } = opened
    await db.query('truncate runtime.processes')
    await db.query(
      `insert into runtime.executors (executor_id, lease_until) values
         ('dead', clock_timestamp() + interval '2 hours'), ('alive', clock_timestamp() + interval '3 seconds')`,
    )
    await db.query(
      `insert into runtime.rate_marks (queue, at) values ('q', clock_timestamp() + interval '2 hours'), ('q', clock_timestamp())`,
    )
    await db.query(
      `insert into runtime.processes (kind, id, state, turn, due_at, queue, priority, changed_at, given_at, gives)
       select 'k', 'given', 'queued', 1, t, 'q', 0, t, t, 1 from (select clock_timestamp() + interval '2 hours' as t) as n`,
    )
    const repaired = await repairTurnTimes(db, LEASE_MS)
    assert.deepEqual(
      repaired.map(({ what, id }) => `${what} ${id}`),
      ['turn k:given', 'worker dead'],
    )
    const [left] = await db.query<Record<string, number>>(
      `select (select count(*)::integer from runtime.executors where lease_until > clock_timestamp() + interval '4 seconds') as leases,
         (select count(*)::integer from runtime.rate_marks where at > clock_timestamp()) as rates,
         (select count(*)::integer from runtime.processes where given_at > clock_timestamp()) as given`,
    )
    assert.deepEqual(left, { leases: 0, rates: 0, given: 0 })
    await recordRepair(db, repaired)
    const kept = await db.query<{ what: string; ids: string[] }>(
      'select what, ids from runtime.clock_repairs order by what',
    )
    assert.deepEqual(kept, [
      { what: 'turn', ids: ['k:given'] },
      { what: 'worker', ids: ['dead'] },
    ])
  })
})
