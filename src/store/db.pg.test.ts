/** Transactions of the pool: shared round trips, the state after a failure, and the hooks at the end. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import type pg from 'pg'
import { refuse } from '#kernel/refusal'
import { openTestDb, type TestDb } from '#test/database'
import { countRoundTrips } from '#test/round-trips'
import { openDb } from './db.ts'
import { statement } from './statement.ts'
import { together, type Tx } from './transaction.ts'

test('a lost connection is reported, but not while the pool closes', async () => {
  const reported: string[] = []
  const opened = await openTestDb({ migrated: false })
  const db = openDb({ ...opened.db.config, onConnectionError: ({ message }) => void reported.push(message) })
  const clients: pg.PoolClient[] = []
  db.pool.on('connect', (client) => void clients.push(client))
  await db.query('select 1')
  const lose = (message: string) => clients.forEach((client) => client.emit('error', new Error(message)))
  lose('while it is open')
  const closing = db.close()
  lose('while it closes')
  await closing
  assert.deepEqual(new Set(reported), new Set(['while it is open']))
  await opened.close()
})

const insertFact = statement<{ readonly id: number }>('test_insert_fact', 'insert into facts values ($1) returning id')
const listFacts = statement<{ readonly id: number }>('test_list_facts', 'select id from facts order by id')
const breakIt = (sqlstate: string) => `do $$ begin raise exception using errcode = '${sqlstate}'; end $$`

describe('transactions', () => {
  let opened: TestDb
  before(async () => {
    opened = await openTestDb({ migrated: false })
    await opened.db.query('create table facts (id int primary key)')
  })
  beforeEach(async () => void (await opened.db.query('truncate facts')))
  after(() => opened.close())

  const facts = async () => (await opened.db.run(listFacts)).map(({ id }) => id)

  test('statements sent without waiting in between are one round trip, executed and answered in order', async () => {
    const { db } = opened
    let answers: unknown
    const trips = await countRoundTrips(db, () =>
      db.transaction(async (tx) => {
        answers = await Promise.all([
          tx.run(insertFact, [1]),
          tx.run(listFacts),
          tx.run(insertFact, [2]),
          tx.run(listFacts),
        ])
      }),
    )
    assert.deepEqual(answers, [[{ id: 1 }], [{ id: 1 }], [{ id: 2 }], [{ id: 1 }, { id: 2 }]])
    // The begin, the four together, the commit.
    assert.equal(trips, 3)
  })

  test('the first read of a transaction is sent together with its begin', async () => {
    const { db } = opened
    await db.run(insertFact, [1])
    const trips = await countRoundTrips(db, () =>
      db.transactionFrom(
        (tx) => tx.run(listFacts),
        async (tx, seen) => tx.run(insertFact, [seen.length + 1]),
      ),
    )
    assert.deepEqual(await facts(), [1, 2])
    assert.equal(trips, 3)
  })

  test('one failing statement rolls back those that were sent with it, and the connection stays usable', async () => {
    const { db } = opened
    const late = statement<{ readonly n: number }>('test_after_fault', 'select 7 as n')
    await assert.rejects(
      db.transaction((tx) => Promise.all([tx.run(insertFact, [1]), tx.query(breakIt('22000')), tx.run(late)])),
      { code: '22000' },
    )
    assert.deepEqual(await facts(), [])
    // Its first use fell into the transaction that had failed already: no connection may think that it knows it.
    const ways = Array.from({ length: 12 }, () => db.transaction((tx) => tx.run(late)))
    assert.deepEqual(new Set((await Promise.all(ways)).map(([row]) => row?.n)), new Set([7]))
  })

  test('of statements that fail together the first error decides, whichever arrives first: a deadlock is retried', async () => {
    const { db } = opened
    let attempts = 0
    await db.transaction(async (tx) => {
      attempts += 1
      if (attempts > 1) return void (await tx.run(insertFact, [attempts]))
      const first = tx.query(breakIt('40P01'))
      const second = tx.run(insertFact, [1])
      // The error that follows from the other one arrives first.
      const slow = async () => (await Promise.allSettled([first, second]), await first)
      await Promise.all([slow(), second])
    })
    assert.deepEqual([attempts, await facts()], [2, [2]])
  })

  test('code that continues after the end of its transaction writes nothing, neither alone nor into another transaction', async () => {
    const { db } = opened
    for (const end of ['rollback', 'commit'] as const) {
      const over = Promise.withResolvers<void>()
      let late: Promise<unknown> = Promise.resolve()
      const ended = db.transaction(async (tx) => {
        late = over.promise.then(() => tx.run(insertFact, [1]))
        await (end === 'commit' ? tx.run(listFacts) : Promise.all([tx.query(breakIt('22000')), late]))
      })
      await (end === 'commit' ? ended : assert.rejects(ended, { code: '22000' }))
      over.resolve()
      await assert.rejects(late, { code: 'store.transaction.over' })
      assert.deepEqual(await facts(), [], end)
    }
  })

  test('when one part fails, no later statement of another part is executed after the rollback', async () => {
    const { db } = opened
    const slow = async (tx: Tx) => {
      await tx.query('select pg_sleep(0.05)')
      await tx.run(insertFact, [7])
    }
    await assert.rejects(
      db.transaction((tx) => together([slow(tx), Promise.reject(new Error('of our own making'))])),
      /of our own making/,
    )
    assert.deepEqual(await facts(), [])
  })

  test('a failing first read prevents the work; a retryable one is retried', async () => {
    const { db } = opened
    await assert.rejects(
      db.transactionFrom(
        (tx) => tx.query(breakIt('22000')),
        async () => assert.fail('it began'),
      ),
      { code: '22000' },
    )
    let looks = 0
    const answer = await db.transactionFrom(
      async (tx) => ((looks += 1) === 1 ? tx.query(breakIt('40P01')) : tx.run(listFacts)),
      async (tx) => tx.run(insertFact, [looks]),
    )
    assert.deepEqual([answer, await facts()], [[{ id: 2 }], [2]])
  })

  test('commit hooks run after a commit, rollback hooks after every rollback', async () => {
    const { db } = opened
    const told: string[] = []
    let attempts = 0
    await db.transaction(async (tx) => {
      const attempt = (attempts += 1)
      tx.afterCommit(() => void told.push(`kept ${attempt}`))
      tx.afterRollback(() => void told.push(`undone ${attempt}`))
      await tx.run(insertFact, [attempt])
      if (attempt === 1) await tx.query(breakIt('40001'))
    })
    assert.deepEqual([told, await facts()], [['undone 1', 'kept 2'], [2]])
    await assert.rejects(
      db.transaction(async (tx) => {
        tx.afterRollback(() => void told.push('undone'))
        throw new Error('no')
      }),
      /no/,
    )
    assert.deepEqual(told.slice(2), ['undone'])
  })

  test('a transaction whose connection breaks at the commit runs its rollback hooks: the outcome is unknown', async () => {
    const { db } = opened
    const told: string[] = []
    await assert.rejects(
      db.transaction(async (tx) => {
        tx.afterCommit(() => void told.push('kept'))
        tx.afterRollback(() => void told.push('undone'))
        const [row] = await tx.query<{ pid: number }>('select pg_backend_pid() as pid')
        await db.query('select pg_terminate_backend($1)', [row?.pid])
        await tx.run(insertFact, [9])
      }),
    )
    assert.deepEqual([told, await facts()], [['undone'], []])
  })

  const refusal = refuse('row.conflict', 'no')

  test('a refusal that is returned rolls back, and is returned', async () => {
    const { db } = opened
    const hooks: string[] = []
    const answer = await db.transaction(async (tx) => {
      tx.afterCommit(() => hooks.push('committed'))
      tx.afterRollback(() => hooks.push('undone'))
      await tx.run(insertFact, [1])
      return refusal
    })
    assert.deepEqual([answer, await facts(), hooks], [refusal, [], ['undone']])
    const from = await db.transactionFrom(
      (tx) => tx.run(listFacts),
      async (tx) => (await tx.run(insertFact, [1]), refusal),
    )
    assert.deepEqual([from, await facts()], [refusal, []])
    const recorded = await db.transaction(async (tx) => (await tx.run(insertFact, [1]), tx.commitRefusal(refusal)))
    assert.deepEqual(recorded, refusal)
    assert.deepEqual(await facts(), [1])
  })

  test('a savepoint that throws or refuses rolls back its own part, with its hooks, and the transaction continues', async () => {
    const { db } = opened
    const hooks: string[] = []
    const part = (tx: Tx, id: number) => {
      tx.afterCommit(() => hooks.push(`committed ${id}`))
      tx.afterRollback(() => hooks.push(`undone ${id}`))
      return tx.run(insertFact, [id])
    }
    await db.transaction(async (tx) => {
      await part(tx, 1)
      assert.deepEqual(await tx.savepoint(async (inner) => (await part(inner, 2), refusal)), refusal)
      await assert.rejects(
        tx.savepoint((inner) => part(inner, 1)),
        { code: '23505' },
      )
      await assert.rejects(
        tx.savepoint(async (inner) => {
          await part(inner, 3)
          await inner.savepoint((deeper) => part(deeper, 4))
          throw new Error('changed my mind')
        }),
        /changed my mind/,
      )
      await tx.savepoint(async (inner) => {
        await part(inner, 5)
        await assert.rejects(
          inner.savepoint(() => inner.query(breakIt('22000'))),
          { code: '22000' },
        )
        await part(inner, 6)
      })
    })
    assert.deepEqual(await facts(), [1, 5, 6])
    const undone = ['undone 2', 'undone 1', 'undone 3', 'undone 4']
    assert.deepEqual(hooks, [...undone, 'committed 1', 'committed 5', 'committed 6'])
  })

  test('a statement that comes after the end of its savepoint is not written into the transaction', async () => {
    const { db } = opened
    let late: Promise<unknown> | undefined
    await db.transaction(async (tx) => {
      let kept: Tx | undefined
      await tx.savepoint(async (inner) => ((kept = inner), refusal))
      late = kept?.run(insertFact, [9])
      await assert.rejects(late as Promise<unknown>, { code: 'store.transaction.over' })
    })
    assert.deepEqual(await facts(), [])
  })

  test('a deadlock inside a savepoint begins the whole transaction again', async () => {
    const { db } = opened
    let attempts = 0
    await db.transaction(async (tx) => {
      attempts += 1
      await tx.run(insertFact, [attempts])
      await tx.savepoint((inner) => (attempts === 1 ? inner.query(breakIt('40P01')) : inner.run(insertFact, [7])))
    })
    assert.deepEqual([attempts, await facts()], [2, [2, 7]])
  })
})
