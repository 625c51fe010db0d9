/** What keeps turns from getting lost, early, double or for ever: rights, clocks, lost answers, lost connections, old rows. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fenceToken, type Fence, type Next, turnName } from '#runtime'
import { type Db, openDb } from '#store'
import { openTestDb, type TestDb } from '#test/database'
import { createDbosRuntime, type DbosRuntime } from './runtime.ts'
import { wakeProcess } from './statements.ts'

const quick = { leaseMs: 400, reapMs: 40, sweepMs: 40, retainMs: 600_000, cleanMs: 600_000 }

describe('the safety of turns', () => {
  let opened: TestDb
  let owner: Db
  let runtime: DbosRuntime
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

  async function start(times: typeof quick): Promise<DbosRuntime> {
    const made = createDbosRuntime({ db: opened.db, times })
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
    await assert.rejects(opened.db.query(`select * from runtime.begin_turn('job', 'x', 1, 1)`), denied)
    await assert.rejects(
      opened.db.query(`select "dbos".enqueue_workflow('concord.turn.v1', 'concord_default')`),
      denied,
    )
    // As a request, inside its transaction, it may wake all the same, and nothing else: to abort and to resume are an operator's.
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

  test('the place of a turn that a rolled-back transaction wanted to start is free again at once', async () => {
    const queue = 'registry_lifecycle'
    const undone = opened.db.transaction(async (tx) => {
      for (let n = 0; n < 4; n++) await runtime.wake({ kind: 'job', id: `undone-${n}` }, { tx, queue })
      throw new Error('it came to nothing')
    })
    await assert.rejects(undone, /it came to nothing/)
    // The queue has four places in one worker.
    const places = Array.from({ length: 4 }, () => runtime.offerPlace(queue))
    for (const place of places) place?.release()
    assert.equal(places.filter((place) => place !== undefined).length, 4)
  })

  test('a turn that the engine brings too early, by a clock that is ahead, waits for the clock of the store', async () => {
    await runtime.wake({ kind: 'job', id: 'early' }, { delayMs: 3_600_000 })
    const view = await runtime.describe({ kind: 'job', id: 'early' })
    const name = turnName({ kind: 'job', id: 'early' }, view?.turn ?? 0)
    await owner.query(`update "dbos".workflow_status set status = 'ENQUEUED' where workflow_uuid = $1`, [name])
    const later = await reach(async () => {
      const now = await runtime.describe({ kind: 'job', id: 'early' })
      return now !== undefined && now.turn !== view?.turn && now
    })
    assert.deepEqual([later.state, later.dueAt, turns], ['waiting', view?.dueAt, []])
    await runtime.abort({ kind: 'job', id: 'early' }, 'enough')
  })

  test('a start whose commit was never answered is found and given again', async () => {
    // The row says that this worker has it; the worker never learnt of it.
    const values = ['job', 'unanswered', 0, 'concord_default', 0, null, false, null, runtime.executorId, 'an-owner']
    const [woken] = await owner.run(wakeProcess, values)
    assert.equal(woken?.outcome, 'started')
    await reach(() => turns.includes('unanswered'))
    await reach(() => isOver('unanswered'))
  })

  test('a turn that is open while the engine knows nothing of it is opened anew', async () => {
    await runtime.wake({ kind: 'job', id: 'forgotten' }, { delayMs: 3_600_000 })
    const view = await runtime.describe({ kind: 'job', id: 'forgotten' })
    const name = turnName({ kind: 'job', id: 'forgotten' }, view?.turn ?? 0)
    await owner.query('delete from "dbos".workflow_status where workflow_uuid = $1', [name])
    await owner.query(
      `update runtime.processes set due_at = now() - interval '1 hour', changed_at = now() - interval '1 hour' where id = 'forgotten'`,
    )
    const [row] = await owner.query<{ count: string }>('select runtime.reopen_lost(30000, 100) as count')
    assert.equal(row?.count, '1')
    await reach(() => turns.includes('forgotten'))
  })

  test('a worker that was declared dead tells its turns, and what it writes at their end is refused', async () => {
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
    // Another worker begins the turn: here by hand, with a greater fence.
    const view = await runtime.describe({ kind: 'job', id: 'zombie' })
    const begin = 'select * from runtime.begin_turn($1, $2, $3, 10)'
    const [taken] = await owner.query<{ fence: string }>(begin, ['job', 'zombie', view?.turn])
    assert.ok(fenceToken(Number(taken?.fence)) > (first?.token ?? ''))
    ends[0]?.()
    await sleep(100)
    const after = await runtime.describe({ kind: 'job', id: 'zombie' })
    assert.deepEqual([after?.state, after?.turn], ['running', view?.turn])
    await runtime.abort({ kind: 'job', id: 'zombie' }, 'enough')
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
      // A wake that fails has not happened, or its answer got lost: asking again is always right.
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

  test('finished turns are deleted after their time, all their rows', async () => {
    for (let count = 0; count < 20; count++) await runtime.wake({ kind: 'job', id: `old-${count}` })
    await reach(() => turns.length === 20)
    await runtime.close()
    const before = await countRows()
    assert.ok(before.every((rows) => rows > 0))
    runtime = await start({ ...quick, retainMs: 1, cleanMs: 20 })
    await reach(async () => (await countRows()).every((rows) => rows === 0))
    await runtime.close()
    runtime = await start(quick)
  })

  async function countRows(): Promise<number[]> {
    const of = (table: string) => `(select count(*) from "dbos".${table} where workflow_uuid like 'turn:job:old-%')`
    const [row] = await owner.query<Record<string, string>>(
      `select ${of('workflow_status')} as status, ${of('workflow_input')} as input, ${of('workflow_output')} as output`,
    )
    return Object.values(row ?? {}).map(Number)
  }

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
