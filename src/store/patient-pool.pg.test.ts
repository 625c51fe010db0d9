/** A server without a free connection: callers wait for one, and get the server's error when none becomes free. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openTestDb, type TestDb } from '#test/database'
import { type Db, openDb } from './db.ts'
import { laneConnection } from './lane.ts'
import { statement } from './statement.ts'

/** Also the time limit of one connection attempt: 50 ms were too short for a busy machine, whose answer was then a timeout of the driver. */
const SHORT_MS = 2_000

const nap = statement<{ readonly n: number }>('test_nap', 'select $1::int as n from pg_sleep(0.01)')

describe('a login that may have two connections', () => {
  let opened: TestDb
  let url: string
  const role = 'concord_test_narrow'
  before(async () => {
    opened = await openTestDb({ migrated: false })
    await opened.db.query(`drop role if exists ${role}`)
    await opened.db.query(`create role ${role} login password 'narrow' connection limit 2`)
    const narrow = new URL(opened.url)
    narrow.username = role
    narrow.password = 'narrow'
    url = narrow.href
  })
  after(async () => {
    await opened.db.query(`drop role if exists ${role}`)
    await opened.close()
  })

  async function withDb(connectTimeoutMs: number, work: (db: Db) => Promise<void>): Promise<void> {
    const db = openDb({ url, poolMax: 8, connectTimeoutMs })
    try {
      await work(db)
    } finally {
      await db.close()
    }
  }

  test('forty concurrent statements and transactions through a pool of eight all succeed', () =>
    withDb(90_000, async (db) => {
      const asked = Array.from({ length: 40 }, (_, n) =>
        n % 2 === 0 ? db.run(nap, [n]) : db.transaction((tx) => tx.run(nap, [n])),
      )
      const answers = (await Promise.all(asked)).map(([row]) => row?.n)
      assert.deepEqual(
        answers,
        Array.from({ length: 40 }, (_, n) => n),
      )
    }))

  test('a dedicated connection waits until another one ends', () =>
    withDb(90_000, async (db) => {
      const [first, second] = [await db.connect(), await db.connect()]
      const third = db.connect()
      await first.end()
      await second.end()
      await (await third).end()
    }))

  test('a lane with another connection does not wait for a second one', { timeout: 90_000 }, () =>
    withDb(600_000, async (db) => {
      const held = [await db.connect(), await db.connect()]
      await assert.rejects(laneConnection(db, 'test-lane').open(0), { code: '53300' })
      for (const client of held) await client.end()
    }),
  )

  test('a lane without a connection waits once, as long as any other caller, and then fails', () =>
    withDb(SHORT_MS, async (db) => {
      const held = [await db.connect(), await db.connect()]
      let asked = 0
      const connect: Db['connect'] = (...args) => ((asked += 1), db.connect(...args))
      await assert.rejects(laneConnection({ ...db, connect }, 'test-lane').open(), { code: '53300' })
      assert.equal(asked, 1)
      for (const client of held) await client.end()
    }))

  test('when none becomes free in time, the error is the server’s', () =>
    withDb(SHORT_MS, async (db) => {
      const held = [await db.connect(), await db.connect()]
      const refused = { code: '53300' }
      await Promise.all([assert.rejects(db.run(nap, [1]), refused), assert.rejects(db.connect(), refused)])
      for (const client of held) await client.end()
    }))
})
