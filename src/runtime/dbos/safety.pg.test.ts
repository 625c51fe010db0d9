/** Turns are never lost, early, doubled or endless: rights, clocks, lost answers, lost connections, old rows. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fenceToken, type Fence, type Next } from '#runtime'
import type { BookRuntime } from '#runtime/book'
import { type Db, openDb } from '#store'
import { openTestDb, type TestDb } from '#test/database'
import { createDbosRuntime, type DbosOptions } from '#test/dbos-runtime'

const quick = { times: { leaseMs: 400, reapMs: 40, sweepMs: 40 }, retainMs: 600_000, cleanMs: 600_000 }

describe('the safety of turns', () => {
  let opened: TestDb
  let owner: Db
  let runtime: BookRuntime
  let drive: (id: string, fence: Fence) => Promise<Next>
  const turns: string[] = []

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
    owner = openDb({ url: opened.url, poolMax: 2 })
    runtime = await start(quick)
  })
  after(async () => {
    await runtime.close()
    await owner.close()
    await opened.close()
  })
  beforeEach(() => {
    turns.length = 0
    drive = async () => ({ t: 'done' })
  })

  async function start(options: Omit<DbosOptions, 'db'>): Promise<BookRuntime> {
    const made = createDbosRuntime({ db: opened.db, ...options })
    made.register('job', (id, fence) => {
      turns.push(id)
      return drive(id, fence)
    })
    const ready = await made.open()
    assert.ok(ready.ok, ready.ok ? '' : ready.reason)
    return made
  }

  async function reach<T>(fact: () => Promise<T | undefined | false> | T | undefined | false): Promise<T> {
    for (;;) {
      const found = await fact()
      if (found !== undefined && found !== false) return found
      await sleep(5)
    }
  }

  const isOver = async (id: string) => (await runtime.describe({ kind: 'job', id })) === undefined

  test('[RUN-12] the engine and the adapter have schemas of their own, which the service may not enter', async () => {
    const tables = await owner.query<{ schema: string }>(
      `select distinct table_schema as schema from information_schema.tables
       where table_name in ('workflow_status', 'queues', 'processes', 'schedules', 'executors')`,
    )
    assert.deepEqual(tables.map(({ schema }) => schema).toSorted(), ['dbos', 'runtime'])
    const denied = /permission denied/
    await assert.rejects(opened.db.query('select * from "dbos".workflow_status'), denied)
    await assert.rejects(opened.db.query('select * from runtime.processes'), denied)
    await assert.rejects(opened.db.query(`select * from runtime.begin_turn('b', 'job', 'x', 1, 1, 'w', 1)`), denied)
    await assert.rejects(
      opened.db.query(`select "dbos".enqueue_workflow('concord.turn.v1', 'concord_default')`),
      denied,
    )
    // A request may still wake inside its transaction, and nothing else: abort and resume belong to operators.
    await opened.db.transaction(async (tx) => {
      await tx.query('set local role concord_app')
      await runtime.wake({ kind: 'job', id: 'asked' }, { tx })
    })
    await reach(() => turns.includes('asked'))
    for (const act of [`runtime.abort('job', 'asked', 'no')`, `runtime.resume('job', 'asked')`]) {
      const asRequest = opened.db.transaction(async (tx) => {
        await tx.query('set local role concord_app')
        await tx.query(`select ${act}`)
      })
      await assert.rejects(asRequest, denied)
    }
  })

  test('the slot of a turn that a rolled-back transaction wanted to start is free again at once', async () => {
    const queue = 'registry_lifecycle'
    const undone = opened.db.transaction(async (tx) => {
      for (let n = 0; n < 4; n++) await runtime.wake({ kind: 'job', id: `undone-${n}` }, { tx, queue })
      throw new Error('it came to nothing')
    })
    await assert.rejects(undone, /it came to nothing/)
    // The queue has four slots in one worker.
    const slots = Array.from({ length: 4 }, () => runtime.reserveSlot(queue))
    for (const slot of slots) slot?.release()
    assert.equal(slots.filter((slot) => slot !== undefined).length, 4)
  })

  const beginAs = async (id: string, { turn, delivery }: { turn: number | undefined; delivery: number }) => {
    const begin = `select * from runtime.begin_turn((select id from runtime.book), 'job', $1, $2, $3, 'another worker', 10)`
    const [row] = await owner.query<{ outcome: string; fence: string }>(begin, [id, turn, delivery])
    return row ?? assert.fail('no answer')
  }

  test('a turn that an engine brings too early, by a clock that is ahead, waits for the clock of the store', async () => {
    await runtime.wake({ kind: 'job', id: 'early' }, { delayMs: 3_600_000 })
    const view = await runtime.describe({ kind: 'job', id: 'early' })
    assert.equal((await beginAs('early', { turn: view?.turn, delivery: 1 })).outcome, 'early')
    const later = await runtime.describe({ kind: 'job', id: 'early' })
    assert.deepEqual([later?.state, later?.dueAt, turns], ['waiting', view?.dueAt, []])
    assert.notEqual(later?.turn, view?.turn)
    await runtime.abort({ kind: 'job', id: 'early' }, 'enough')
  })

  test('a start whose commit was never answered is found and given again', async () => {
    // The row names this worker, but the worker never learnt of it.
    const start = `select * from runtime.wake('job', 'unanswered', 0, 'concord_default', 0, null, false, null, $1)`
    const [woken] = await owner.query<{ outcome: string }>(start, [runtime.executorId])
    assert.equal(woken?.outcome, 'started')
    await reach(() => turns.includes('unanswered'))
    await reach(() => isOver('unanswered'))
  })

  test('a turn that was handed over and that the engine lost is handed over again under a new number', async () => {
    await runtime.wake({ kind: 'job', id: 'forgotten' }, { delayMs: 3_600_000 })
    const view = await runtime.describe({ kind: 'job', id: 'forgotten' })
    await owner.query(
      `update runtime.processes set due_at = now() - interval '1 hour', given_at = now() - interval '10 s', gives = 1 where id = 'forgotten'`,
    )
    await reach(() => turns.includes('forgotten'))
    await reach(() => isOver('forgotten'))
    // A late delivery of the engine is stale.
    await runtime.wake({ kind: 'job', id: 'forgotten' }, { delayMs: 3_600_000 })
    assert.equal((await beginAs('forgotten', { turn: view?.turn, delivery: 1 })).outcome, 'stale')
    await runtime.abort({ kind: 'job', id: 'forgotten' }, 'enough')
  })

  test('a worker that was declared dead aborts its turns, and their final writes are refused', async () => {
    const fences: Fence[] = []
    const ends: (() => void)[] = []
    drive = (_id, fence) => {
      fences.push(fence)
      return new Promise((resolve) => ends.push(() => resolve({ t: 'again' })))
    }
    await runtime.wake({ kind: 'job', id: 'zombie' })
    const [first] = await reach(() => fences.length > 0 && fences)
    await owner.query('delete from runtime.executors where executor_id = $1', [runtime.executorId])
    await reach(() => first?.signal.aborted)
    // Another worker begins the turn: simulated here with a greater fence.
    const view = await runtime.describe({ kind: 'job', id: 'zombie' })
    await owner.query(
      `insert into runtime.executors (executor_id, lease_until) values ('another worker', now() + interval '1 hour')`,
    )
    await owner.query(`select pg_advisory_lock(hashtextextended('concord.executor:another worker', 0))`)
    const taken = await beginAs('zombie', { turn: view?.turn, delivery: 2 })
    assert.ok(fenceToken(Number(taken.fence)) > (first?.token ?? ''))
    // A delivery that is not newer than the one that began is refused.
    assert.equal((await beginAs('zombie', { turn: view?.turn, delivery: 2 })).outcome, 'stale')
    ends[0]?.()
    await sleep(100)
    const after = await runtime.describe({ kind: 'job', id: 'zombie' })
    assert.deepEqual([after?.state, after?.turn], ['running', view?.turn])
    await runtime.abort({ kind: 'job', id: 'zombie' }, 'enough')
    await owner.query(`delete from runtime.executors where executor_id = 'another worker'`)
  })

  test('lost connections cost time and nothing else', async () => {
    const seen = new Map<string, number>()
    drive = async (id) => {
      await sleep(20)
      seen.set(id, (seen.get(id) ?? 0) + 1)
      return { t: 'done' }
    }
    const ids = Array.from({ length: 40 }, (_, index) => `cut-${index}`)
    for (const [index, id] of ids.entries()) {
      // A failed wake did not happen, or its answer was lost: a retry is always correct.
      for (let isWoken = false; !isWoken; )
        isWoken = await runtime.wake({ kind: 'job', id }).then(
          () => true,
          () => false,
        )
      if (index % 8 === 4) {
        await owner.query(
          `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name like 'concord-runtime%'`,
        )
      }
    }
    for (const id of ids) await reach(() => isOver(id))
    assert.deepEqual([...seen.keys()].toSorted(), ids.toSorted())
    const [lock] = await reach(async () => {
      const locks = await owner.query<{ pid: number }>(
        `select l.pid from pg_locks l join pg_stat_activity a using (pid)
         where l.locktype = 'advisory' and l.granted and a.application_name = 'concord-runtime-life' and a.datname = current_database()`,
      )
      return locks.length > 0 && locks
    })
    assert.ok(lock, 'the proof of life was not taken up again')
  })

  test('closing waits for the turns under way, which may still wake others; those wait for the next worker', async () => {
    let open = () => {}
    const gate = new Promise<void>((resolve) => (open = resolve))
    drive = async (id) => {
      if (id !== 'last') return { t: 'done' }
      await gate
      await runtime.wake({ kind: 'job', id: 'heir' })
      return { t: 'done' }
    }
    await runtime.wake({ kind: 'job', id: 'last' })
    await reach(() => turns.includes('last'))
    const closing = runtime.close()
    await sleep(50)
    open()
    await closing
    assert.deepEqual(turns, ['last'])
    await assert.rejects(runtime.wake({ kind: 'job', id: 'late' }), { code: 'runtime.closed' })
    runtime = await start(quick)
    await reach(() => turns.includes('heir'))
  })

  test('turns that have ended in the engine, and turns that a dead worker left there, are deleted after their time', async () => {
    await runtime.close()
    runtime = await start({ ...quick, startsHere: false })
    for (let count = 0; count < 20; count++) await runtime.wake({ kind: 'job', id: `old-${count}` })
    await reach(() => turns.filter((id) => id.startsWith('old-')).length === 20)
    drive = () => new Promise(() => {})
    await runtime.wake({ kind: 'job', id: 'left' })
    await reach(() => turns.includes('left'))
    await runtime.halt()
    const before = await countRows()
    assert.ok(before.every((rows) => rows > 0))
    drive = async () => ({ t: 'done' })
    // A workflow of another program, without an application name.
    await owner.query(`select "dbos".enqueue_workflow(workflow_name => 'foreign', queue_name => 'foreign')`)
    runtime = await start({ ...quick, retainMs: 1, cleanMs: 20 })
    await reach(async () => (await countRows())[0] === 1)
    await sleep(100)
    const names = await owner.query('select name from "dbos".workflow_status')
    assert.deepEqual(names, [{ name: 'foreign' }])
    for (const table of ['workflow_status', 'workflow_input']) await owner.query(`delete from "dbos".${table}`)
    await reach(async () => (await countRows()).every((rows) => rows === 0))
    await runtime.close()
    runtime = await start(quick)
  })

  async function countRows(): Promise<number[]> {
    const of = (table: string) => `(select count(*) from "dbos".${table})`
    const [row] = await owner.query<Record<string, string>>(
      `select ${of('workflow_status')} as status, ${of('workflow_input')} as input, ${of('workflow_output')} as output`,
    )
    return Object.values(row ?? {}).map(Number)
  }

  test('health reports the engine, the workers and the turns that wait for one', async () => {
    const well = await runtime.health()
    assert.deepEqual([well.engine, well.ok, well.isEngineReachable, well.workers], ['dbos', true, true, 1])
    const client = createDbosRuntime({ db: opened.db, works: false })
    assert.equal((await client.open()).ok, true)
    await runtime.close()
    await client.wake({ kind: 'job', id: 'waiting' })
    await owner.query(`update runtime.processes set due_at = now() - interval '2 minutes' where id = 'waiting'`)
    const idle = await client.health()
    assert.deepEqual([idle.ok, idle.isEngineReachable, idle.workers], [false, null, 0])
    assert.ok((idle.waitingMs ?? 0) >= 120_000)
    await client.close()
    runtime = await start(quick)
    await reach(() => isOver('waiting'))
    assert.equal((await runtime.health()).ok, true)
  })

  test('a restored book gets a new id: deliveries under the old one are stale', async () => {
    await runtime.wake({ kind: 'job', id: 'restored' }, { delayMs: 3_600_000 })
    const view = await runtime.describe({ kind: 'job', id: 'restored' })
    await owner.query(`update runtime.processes set due_at = now() where id = 'restored'`)
    const [old] = await owner.query<{ id: string }>('select id from runtime.book')
    const [renewed] = await owner.query<{ id: string }>('select runtime.renew_book() as id')
    assert.notEqual(renewed?.id, old?.id)
    const begin = `select outcome from runtime.begin_turn($1, 'job', 'restored', $2, 1, 'another worker', 10)`
    assert.deepEqual(await owner.query(begin, [old?.id, view?.turn]), [{ outcome: 'stale' }])
    await reach(() => turns.includes('restored'))
  })

  test('[RUN-05] a database that cannot be reached is a refusal at start-up, a second runtime in one process too', async () => {
    const second = await createDbosRuntime({ db: opened.db }).open()
    assert.equal(second.ok ? '' : second.code, 'runtime.engine.unavailable')
    const nowhere = openDb({ url: 'postgres://nobody@127.0.0.1:1/nothing', connectTimeoutMs: 500 })
    const refused = await createDbosRuntime({ db: nowhere, works: false }).open()
    assert.equal(refused.ok ? '' : refused.code, 'runtime.engine.unavailable')
    await nowhere.close()
    assert.equal(runtime.profile.name, 'DBOSDurableRuntime')
  })

  test('[RUN-03] what DBOS has: workflows, steps, queues, schedules, subworkflows and effect interception', async () => {
    const { capabilities } = runtime.profile
    const has = Object.entries(capabilities).flatMap(([name, grade]) => (grade === 'none' ? [] : [name]))
    const expected = [
      'durable_steps',
      'durable_workflows',
      'effect_interception',
      'queues',
      'schedules',
      'subworkflows',
    ]
    assert.deepEqual(has.toSorted(), expected)
    assert.match(runtime.profile.notes.signals ?? '', /row and a wake/)
  })
})
