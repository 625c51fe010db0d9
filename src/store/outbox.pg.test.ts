/** The outbox: with its change or not at all, at least once, never twice at once, given up when it is hopeless. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { openTestDb, type TestDb } from '#test/database'
import { until } from '#test/until'
import {
  drainAbandoned,
  drainOutbox,
  type DrainOptions,
  type OutboxRow,
  outboxTable,
  runOutbox,
  writeOutbox,
} from './outbox.ts'

const box = outboxTable({ table: 'public.outbox', kinds: ['enqueue_task', 'route_event'] })

describe('an outbox', () => {
  let opened: TestDb

  before(async () => {
    opened = await openTestDb({ migrated: false, poolMax: 8 })
    await opened.db.query(
      `create table public.outbox (id bigserial primary key, kind text not null, payload jsonb not null, status text not null default 'Pending',
         available_at timestamptz not null default now(), attempts int not null default 0, last_error text,
         created_at timestamptz not null default now(), processed_at timestamptz);
       create index idx_outbox_pending on public.outbox (status, available_at) where status = 'Pending';
       create table public.fact (n int)`,
    )
  })
  beforeEach(() => opened.db.query('truncate public.outbox, public.fact'))
  after(() => opened.close())

  const write = (count: number, kind = 'enqueue_task') =>
    opened.db.transaction((tx) =>
      writeOutbox(
        tx,
        box,
        Array.from({ length: count }, (_, n) => ({ kind, payload: { n } })),
      ),
    )
  const rows = () =>
    opened.db.query<{
      id: string
      status: string
      attempts: number
      last_error: string | null
      due: boolean
      done: boolean
    }>(
      `select id::text, status, attempts, last_error, available_at <= now() as due, processed_at is not null as done from public.outbox order by id`,
    )
  const options = (handle: (row: OutboxRow) => Promise<void>, more: Partial<DrainOptions> = {}): DrainOptions => ({
    handle,
    retry: (attempts) => (attempts < 3 ? { retry: true, delayMs: 0 } : { retry: false }),
    visibilityMs: 3_600_000,
    ...more,
  })

  test('a row exists if and only if its change was committed', async () => {
    const change = async (isBroken: boolean) =>
      opened.db.transaction(async (tx) => {
        await tx.query('insert into public.fact values (1)')
        await writeOutbox(tx, box, [{ kind: 'route_event', payload: {} }])
        if (isBroken) throw new Error('stop')
      })
    await assert.rejects(change(true))
    assert.deepEqual(await rows(), [])
    await change(false)
    assert.equal((await rows()).length, 1)
  })

  test('due rows go Pending, Processing, Done, in order, and carry their id and payload', async () => {
    const ids = await write(3)
    const seen: string[] = []
    const during: string[] = []
    const drained = await drainOutbox(
      opened.db,
      box,
      options(async (row) => {
        seen.push(`${row.id}:${JSON.stringify(row.payload)}`)
        during.push(...(await rows()).map(({ status }) => status))
      }),
    )
    assert.deepEqual(drained, { claimed: 3, done: 3, failed: 0, lost: 0 })
    assert.deepEqual(
      seen.toSorted(),
      ids.map((id, n) => `${id}:{"n":${n}}`),
    )
    assert.ok(during.every((status) => status === 'Processing'))
    assert.ok((await rows()).every(({ status, done }) => status === 'Done' && done))
    assert.equal(
      (
        await drainOutbox(
          opened.db,
          box,
          options(() => assert.fail('nothing is due')),
        )
      ).claimed,
      0,
    )
  })

  test('a failure counts, keeps its reason, waits as long as the decision says, and is given up at the limit', async () => {
    await write(1)
    const fail = options(() => Promise.reject(new Error('no route\0here')))
    for (const attempts of [1, 2]) {
      await drainOutbox(opened.db, box, fail)
      assert.deepEqual(
        (await rows()).map(({ status, attempts, last_error }) => [status, attempts, last_error]),
        [['Pending', attempts, 'no routehere']],
      )
    }
    await drainOutbox(opened.db, box, fail)
    assert.deepEqual(
      (await rows()).map(({ status, attempts, done }) => [status, attempts, done]),
      [['Failed', 3, false]],
    )
    assert.equal((await drainOutbox(opened.db, box, fail)).claimed, 0)

    await write(1)
    await drainOutbox(opened.db, box, { ...fail, retry: () => ({ retry: true, delayMs: 60_000 }) })
    const waiting = (await rows()).at(-1)
    assert.deepEqual([waiting?.status, waiting?.due], ['Pending', false])
    assert.equal((await drainOutbox(opened.db, box, fail)).claimed, 0)
  })

  test('one row that fails does not hold the others of its batch', async () => {
    await write(10)
    const drained = await drainOutbox(
      opened.db,
      box,
      options(async ({ payload }) => {
        if (payload['n'] === 4) throw new Error('only this one')
      }),
    )
    assert.deepEqual(drained, { claimed: 10, done: 9, failed: 1, lost: 0 })
  })

  test('eight drainers, a thousand rows: every row is handled once, and never by two at a time', async () => {
    await write(1_000)
    const running = new Set<string>()
    const handled: string[] = []
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        const work = options(
          async ({ id }) => {
            assert.ok(!running.has(id), `${id} is handled by two drainers`)
            running.add(id)
            await new Promise(setImmediate)
            running.delete(id)
            handled.push(id)
          },
          { limit: 9 },
        )
        while ((await drainOutbox(opened.db, box, work)).claimed > 0);
      }),
    )
    assert.equal(handled.length, 1_000)
    assert.equal(new Set(handled).size, 1_000)
  })

  /** Time that passes for the rows, as they know it: nobody has to sleep, and a busy machine is not late. */
  const pass = (time: string) =>
    opened.db.query('update public.outbox set available_at = available_at - $1::interval', [time])

  /** Says when it has its row, and keeps it until it is released. */
  function aStuckHandler() {
    const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const handle = () => {
      reached.resolve()
      return released.promise
    }
    return { handle, reached: reached.promise, release: () => released.resolve() }
  }

  test('what a slow drainer left is taken again after the visibility time, and its late end changes nothing', async () => {
    const [id] = await write(1)
    const [slow, quick] = [aStuckHandler(), aStuckHandler()]
    const first = drainOutbox(opened.db, box, options(slow.handle))
    await slow.reached
    const again = options(quick.handle)
    assert.equal((await drainAbandoned(opened.db, box, again)).claimed, 0, 'too early')
    assert.equal((await drainOutbox(opened.db, box, again)).claimed, 0, 'it is not pending')
    await pass('2 hours')
    const second = drainAbandoned(opened.db, box, again)
    await quick.reached
    slow.release()
    assert.deepEqual(await first, { claimed: 1, done: 0, failed: 0, lost: 1 })
    assert.equal((await rows())[0]?.status, 'Processing', 'it belongs to the second drainer now')
    quick.release()
    assert.deepEqual(await second, { claimed: 1, done: 1, failed: 0, lost: 0 })
    assert.deepEqual(
      (await rows()).map((row) => [row.id, row.status, row.attempts]),
      [[id, 'Done', 1]],
    )
  })

  test('a row that kills every drainer is given up, not handled for ever', async () => {
    await write(1)
    let handled = 0
    const dies = options(() => {
      handled += 1
      return new Promise<never>(() => {})
    })
    void drainOutbox(opened.db, box, dies)
    for (let attempt = 1; attempt <= 3; attempt++) {
      await until(() => handled === attempt, `attempt ${attempt}`)
      await pass('2 hours')
      if (attempt < 3) void drainAbandoned(opened.db, box, dies)
    }
    assert.deepEqual(await drainAbandoned(opened.db, box, dies), { claimed: 1, done: 0, failed: 1, lost: 0 })
    assert.deepEqual(
      (await rows()).map(({ status, attempts, last_error }) => [status, attempts, last_error]),
      [['Failed', 3, 'the drainer did not come back']],
    )
    await pass('2 hours')
    assert.equal((await drainAbandoned(opened.db, box, dies)).claimed, 0)
    assert.equal(handled, 3)
  })

  test('a drainer takes only the kinds it knows', async () => {
    await write(2, 'enqueue_task')
    await write(3, 'route_event')
    assert.equal(
      (
        await drainOutbox(
          opened.db,
          box,
          options(async () => {}, { kinds: ['route_event'] }),
        )
      ).done,
      3,
    )
    await assert.rejects(write(1, 'made_up'), { code: 'store.outbox.kind' })
  })

  test('rows that a dead drainer left are taken again also while new ones never cease to come', async () => {
    const [left] = await write(1)
    await opened.db.query(`update public.outbox set status = 'Processing', available_at = now() - interval '1 hour'`)
    await write(1)
    const stop = new AbortController()
    const handled: string[] = []
    await runOutbox(opened.db, box, {
      ...options(async ({ id }) => {
        handled.push(id)
        await write(1)
        if (id === left || handled.length === 300) stop.abort()
      }),
      signal: stop.signal,
      wait: () => Promise.reject(new Error('there was always something due')),
    })
    assert.equal(handled.at(-1), left)
  })

  test('running until told to stop handles what comes', async () => {
    const stop = new AbortController()
    const handled: string[] = []
    const running = runOutbox(opened.db, box, {
      ...options(async ({ id }) => {
        handled.push(id)
        if (handled.length === 20) stop.abort()
      }),
      idleMs: 5,
      signal: stop.signal,
    })
    for (let n = 0; n < 4; n++) await write(5)
    await running
    assert.equal(new Set(handled).size, 20)
  })
})
