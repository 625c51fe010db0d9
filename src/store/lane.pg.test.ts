/** The lane itself: batches, order, failures that stay alone, lost connections, a bounded queue, and an end that drains. */
import assert from 'node:assert/strict'
import { after, before, describe, test, type TestContext } from 'node:test'
import { openTestDb, type TestDb } from '#test/database'
import type { Db } from './db.ts'
import { UnknownOutcome } from './faults.ts'
import { type LaneConfig, openLane, type Submitted } from './lane.ts'
import type { Sql } from './statement.ts'

type Item = { readonly key: string; readonly value: number }

describe('a lane', () => {
  let opened: TestDb

  before(async () => {
    opened = await openTestDb({ migrated: false })
    await opened.db.query(
      'create table written (n bigint generated always as identity, key text, value int check (value >= 0), xid xid8 default pg_current_xact_id())',
    )
    await opened.db.query('create unique index written_value_uq on written (value) where key = $$once$$')
  })
  after(() => opened.close())

  async function insertAll(sql: Sql, items: readonly Submitted<Item>[]) {
    await sql.query(
      'insert into written (key, value) select key, value from unnest($1::text[], $2::int[]) with ordinality as i(key, value, n) order by n',
      [items.map(({ item }) => item.key), items.map(({ item }) => item.value)],
    )
    return items.map(({ item }) => item.value)
  }

  /** A lane that notes its batches; closed when the test ends. */
  function aLane(t: TestContext, config: Partial<LaneConfig<Item, number>> = {}) {
    const batches: Item[][] = []
    const lane = openLane<Item, number>(opened.db, {
      name: 'test',
      ...config,
      async flush(sql, items, tell) {
        batches.push(items.map(({ item }) => item))
        return (config.flush ?? insertAll)(sql, items, tell)
      },
    })
    t.after(() => lane.close())
    return { lane, batches }
  }

  const valuesOf = async (key: string) =>
    (await opened.db.query<{ value: number }>('select value from written where key = $1 order by n', [key])).map(
      ({ value }) => value,
    )

  test('items of one turn of the event loop share a commit, and every caller gets its own answer', async (t) => {
    const { lane, batches } = aLane(t)
    const answers = await Promise.all(Array.from({ length: 100 }, (_, value) => lane.submit({ key: 'turn', value })))
    assert.deepEqual(
      answers,
      Array.from({ length: 100 }, (_, value) => value),
    )
    assert.equal(batches.length, 1)
    const [commits] = await opened.db.query<{ commits: number }>(
      `select count(distinct xid)::int as commits from written where key = 'turn'`,
    )
    assert.equal(commits?.commits, 1)
  })

  test('no caller is answered before its own commit', async (t) => {
    const { lane } = aLane(t)
    await Promise.all(
      Array.from({ length: 200 }, async (_, value) => {
        await lane.submit({ key: 'seen', value })
        const [row] = await opened.db.query(`select from written where key = 'seen' and value = $1`, [value])
        assert.ok(row, `answered before the commit of ${value}`)
      }),
    )
  })

  test('items with one key keep their order and never share a batch', async (t) => {
    const { lane, batches } = aLane(t, { keyOf: ({ key }) => key, batchMax: 8 })
    const keys = ['k0', 'k1', 'k2']
    await Promise.all(Array.from({ length: 60 }, (_, value) => lane.submit({ key: keys[value % 3] ?? '', value })))
    for (const batch of batches) assert.equal(new Set(batch.map(({ key }) => key)).size, batch.length)
    for (const [index, key] of keys.entries()) {
      assert.deepEqual(
        await valuesOf(key),
        Array.from({ length: 20 }, (_, n) => n * 3 + index),
      )
    }
  })

  test('a failing row fails alone, at any position in the batch', async (t) => {
    const { lane } = aLane(t)
    const answers = await Promise.allSettled(
      Array.from({ length: 100 }, (_, value) =>
        lane.submit({ key: 'alone', value: [0, 37, 38, 99].includes(value) ? -value - 1 : value }),
      ),
    )
    const failed = answers.flatMap((answer, index) =>
      answer.status === 'rejected' ? [[index, answer.reason.code]] : [],
    )
    assert.deepEqual(failed, [
      [0, '23514'],
      [37, '23514'],
      [38, '23514'],
      [99, '23514'],
    ])
    assert.equal((await valuesOf('alone')).length, 96)
  })

  test('a full queue refuses immediately and accepts items again when there is room', async (t) => {
    const { lane } = aLane(t, { queuedMax: 10 })
    const answers = await Promise.all(Array.from({ length: 15 }, (_, value) => lane.submit({ key: 'full', value })))
    assert.deepEqual(
      answers.map((answer) => (typeof answer === 'number' ? 'written' : answer.code)),
      [...Array<string>(10).fill('written'), ...Array<string>(5).fill('overloaded')],
    )
    assert.equal(await lane.submit({ key: 'full', value: 99 }), 99)
  })

  test('closing accepts nothing more and writes the queued items', async () => {
    const lane = openLane<Item, number>(opened.db, { name: 'test', flush: insertAll, batchMax: 10 })
    const answers = Promise.all(Array.from({ length: 100 }, (_, value) => lane.submit({ key: 'close', value })))
    const closing = lane.close()
    const late = await lane.submit({ key: 'close', value: 100 })
    assert.equal(typeof late === 'number' ? 'written' : late.code, 'store.lane.closed')
    await closing
    assert.equal((await answers).length, 100)
    assert.equal((await valuesOf('close')).length, 100)
  })

  test('closing twice closes once, and both calls wait for it', async () => {
    const lane = openLane<Item, number>(opened.db, { name: 'test', flush: insertAll })
    const answer = lane.submit({ key: 'twice', value: 1 })
    await Promise.all([lane.close(), lane.close()])
    assert.equal(await answer, 1)
    await lane.close()
  })

  /** Ends the lane's connection before or after the commit of the first flush; the answer never reaches the lane. */
  function breaking(when: 'before' | 'after', flush = insertAll) {
    let isBroken = false
    return async (sql: Sql, items: readonly Submitted<Item>[]) => {
      if (isBroken) return flush(sql, items)
      isBroken = true
      if (when === 'after') await flush(sql, items)
      await sql.query('select pg_terminate_backend(pg_backend_pid())')
      return assert.fail('the connection should have ended')
    }
  }

  for (const when of ['before', 'after'] as const) {
    test(`a connection that breaks ${when} the commit: without a key the outcome is unknown`, async (t) => {
      const { lane } = aLane(t, { flush: breaking(when) })
      const key = `unknown-${when}`
      const answers = await Promise.allSettled([1, 2, 3].map((value) => lane.submit({ key, value })))
      for (const answer of answers) assert.ok(answer.status === 'rejected' && answer.reason instanceof UnknownOutcome)
      assert.equal((await valuesOf(key)).length, when === 'after' ? 3 : 0)
      assert.equal(await lane.submit({ key, value: 4 }), 4, 'the lane has a new connection')
    })

    test(`a connection that breaks ${when} the commit: with a key a retry settles it`, async (t) => {
      const base = when === 'after' ? 1_000 : 2_000
      const once = async (sql: Sql, items: readonly Submitted<Item>[]) => {
        const clause = items.some(({ retried }) => retried) ? 'on conflict (value) where key = $$once$$ do nothing' : ''
        await sql.query(
          `insert into written (key, value) select 'once', value from unnest($1::int[]) as value ${clause}`,
          [items.map(({ item }) => item.value)],
        )
        return items.map(({ item }) => item.value)
      }
      const { lane } = aLane(t, { flush: breaking(when, once), retrySafe: true })
      assert.deepEqual(await Promise.all([1, 2, 3].map((n) => lane.submit({ key: 'once', value: base + n }))), [
        base + 1,
        base + 2,
        base + 3,
      ])
      const [row] = await opened.db.query<{ count: number }>(
        `select count(*)::int as count from written where key = 'once' and value between $1 and $2`,
        [base, base + 9],
      )
      assert.equal(row?.count, 3)
    })
  }

  /** The same database, but only the first so many dedicated connections come about. */
  function connectingOnly(count: number): Db {
    let tries = 0
    const connect: Db['connect'] = (name) =>
      ++tries <= count
        ? opened.db.connect(name)
        : Promise.reject(Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }))
    return Object.assign(Object.create(opened.db) as Db, { connect })
  }

  test('an unreachable server is a refusal for every waiting caller: nothing was sent', async () => {
    const lane = openLane<Item, number>(connectingOnly(0), {
      name: 'test',
      flush: insertAll,
      batchMax: 2,
      keyOf: ({ key }) => key,
    })
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, value) => lane.submit({ key: `nowhere-${value % 7}`, value })),
    )
    await lane.close()
    assert.deepEqual(
      new Set(answers.map((answer) => (typeof answer === 'number' ? 'written' : answer.code))),
      new Set(['database_unavailable']),
    )
  })

  test('a connection that cannot be opened costs no write while the other works', async () => {
    const lane = openLane<Item, number>(connectingOnly(1), { name: 'test', flush: insertAll, batchMax: 5 })
    const answers = await Promise.all(Array.from({ length: 50 }, (_, value) => lane.submit({ key: 'one', value })))
    await lane.close()
    assert.deepEqual(
      answers,
      Array.from({ length: 50 }, (_, value) => value),
    )
  })

  test('an item on which our own code throws fails alone, and the connection stays open', async (t) => {
    let connects = 0
    const counting = Object.assign(Object.create(opened.db) as Db, {
      connect: (name?: string) => {
        connects += 1
        return opened.db.connect(name)
      },
    })
    const lane = openLane<Item, number>(counting, {
      name: 'test',
      connections: 1,
      retrySafe: true,
      async flush(sql, items) {
        for (const { item } of items) if (item.value === 13) throw new TypeError('13 cannot be written')
        return insertAll(sql, items)
      },
    })
    t.after(() => lane.close())
    const answers = await Promise.allSettled(
      Array.from({ length: 30 }, (_, value) => lane.submit({ key: 'fault', value })),
    )
    assert.deepEqual(
      answers.flatMap((answer, index) => (answer.status === 'rejected' ? [[index, answer.reason.message]] : [])),
      [[13, '13 cannot be written']],
    )
    assert.deepEqual(
      (await valuesOf('fault')).toSorted((a, b) => a - b),
      Array.from({ length: 30 }, (_, value) => value).filter((value) => value !== 13),
    )
    assert.equal(connects, 1)
  })
})
