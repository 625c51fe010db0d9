/** Whatever an engine does to the turns it carries, no wake is lost and two turns of a process never run concurrently. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Next } from '#runtime'
import { openDb } from '#store'
import { openTestDb, type TestDb } from '#test/database'
import { until } from '#test/until'
import { type BookRuntime, createRuntime } from './book.ts'
import type { Carrier, CarrierHost, GivenTurn } from './index.ts'
import { referenceProfile } from '#test/reference-runtime/profile'

/** A carrier in this process that loses, duplicates and delays turns, as an engine might. */
type TestCarrier = Carrier & {
  /** Every turn that was handed over, in order. */
  readonly given: GivenTurn[]
  /** The fate of a turn; by default it is delivered. */
  treat: (turn: GivenTurn, deliver: (delivery: number) => Promise<string>) => void
  /** The number of next turns that are refused. */
  refuses: number
  isReachable: boolean
}

function createTestCarrier(): TestCarrier {
  let host: CarrierHost | undefined
  const carrier: TestCarrier = {
    profile: referenceProfile,
    unavailable: undefined,
    given: [],
    refuses: 0,
    isReachable: true,
    treat: (_turn, deliver) => void deliver(1),
    async open(opened) {
      host = opened
    },
    ready: async () => carrier.isReachable,
    async give(turns) {
      if (!host) return turns
      if (!carrier.isReachable) throw new Error('The engine does not answer.')
      const { deliver } = host
      const refused = turns.slice(0, carrier.refuses)
      carrier.refuses -= refused.length
      for (const turn of turns.slice(refused.length)) {
        carrier.given.push(turn)
        carrier.treat(turn, (delivery) => deliver(turn, delivery))
      }
      return refused
    },
    defineQueue: async () => {},
    async close() {
      host = undefined
    },
  }
  return carrier
}

describe('the book over any engine', () => {
  let opened: TestDb
  let carrier: TestCarrier
  let runtime: BookRuntime
  let drive: (id: string) => Promise<Next>
  const driven: string[] = []

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
    carrier = createTestCarrier()
    runtime = createRuntime({ db: opened.db, carrier, startsHere: false, times: { sweepMs: 20, reapMs: 40 } })
    runtime.register('job', (id) => {
      driven.push(id)
      return drive(id)
    })
    const ready = await runtime.open()
    assert.ok(ready.ok, ready.ok ? '' : ready.reason)
  })
  after(async () => {
    await runtime.close()
    await opened.close()
  })
  beforeEach(() => {
    driven.length = 0
    carrier.given.length = 0
    carrier.treat = (_turn, deliver) => void deliver(1)
    drive = async () => ({ t: 'done' })
  })

  const isOver = async (id: string) => (await runtime.describe({ kind: 'job', id })) === undefined
  const numbersOf = (id: string) => carrier.given.filter((turn) => turn.id === id).map(({ turn }) => turn)

  test('names are short, unique, and carry the id of the book', async () => {
    await runtime.wake({ kind: 'job', id: 'x'.repeat(200) })
    await until(() => isOver('x'.repeat(200)), 'its turn')
    const [turn] = carrier.given
    assert.match(turn?.name ?? '', /^[0-9a-f]{10}:\d+$/)
    assert.equal(turn?.name, `${turn?.book}:${turn?.turn}`)
  })

  test('a turn that the engine loses is handed over again under a new number', async () => {
    let losses = 2
    carrier.treat = (_turn, deliver) => void (losses-- > 0 || deliver(1))
    await runtime.wake({ kind: 'job', id: 'lost' })
    await until(() => isOver('lost'), 'the third hand-over')
    const numbers = numbersOf('lost')
    assert.deepEqual([numbers.length, new Set(numbers).size, driven], [3, 3, ['lost']])
  })

  test('a turn that the engine delivers twice runs once; a late delivery with an older number never runs', async () => {
    const late: (() => Promise<string>)[] = []
    carrier.treat = (turn, deliver) => {
      if (turn.id === 'late' && late.length === 0) late.push(() => deliver(1))
      else for (let copy = 0; copy < 3; copy++) void deliver(1)
    }
    drive = async () => {
      await sleep(20)
      return { t: 'done' }
    }
    for (const id of ['twice', 'late']) await runtime.wake({ kind: 'job', id })
    await until(async () => (await isOver('twice')) && (await isOver('late')), 'both')
    assert.deepEqual(await Promise.all(late.map((deliver) => deliver())), ['stale'])
    assert.deepEqual(driven.toSorted(), ['late', 'twice'])
  })

  test('a newer delivery takes over the turn, and an older one does not', async () => {
    const ends: (() => void)[] = []
    drive = () => new Promise((resolve) => ends.push(() => resolve({ t: 'done' })))
    const outcomes: Promise<string>[] = []
    carrier.treat = (_turn, deliver) => void outcomes.push(deliver(2))
    await runtime.wake({ kind: 'job', id: 'again' })
    await until(async () => driven.length === 1, 'the second delivery')
    const [turn] = carrier.given
    assert.ok(turn)
    const [older, newer] = [deliverAgain(1), deliverAgain(3)]
    assert.equal(await older, 'stale')
    await until(async () => driven.length === 2, 'the third delivery')
    for (const end of ends) end()
    assert.deepEqual(await Promise.all([...outcomes, newer]), ['stale', 'over'])

    /** Acts as an engine that has lost contact with a worker. */
    function deliverAgain(delivery: number): Promise<string> {
      return new Promise((resolve) => {
        const { treat } = carrier
        carrier.treat = (_turn, deliver) => void deliver(delivery).then(resolve)
        if (turn) void carrier.give([turn])
        carrier.treat = treat
      })
    }
  })

  test('while the engine is unreachable, wakes wait in the book and health fails', async () => {
    carrier.isReachable = false
    for (let index = 0; index < 10; index++) await runtime.wake({ kind: 'job', id: `away-${index}` })
    await sleep(100)
    const health = await runtime.health()
    assert.deepEqual([health.ok, health.isEngineReachable, driven.length], [false, false, 0])
    carrier.isReachable = true
    carrier.refuses = 3
    await until(async () => driven.length === 10 && (await isOver('away-9')), 'all of them')
    assert.equal((await runtime.health()).ok, true)
  })

  test('a turn that was handed over and never begins makes health fail', async (t) => {
    carrier.treat = () => {}
    await runtime.wake({ kind: 'job', id: 'silent' })
    await until(async () => numbersOf('silent').length > 0, 'its hand-over')
    const owner = openDb({ url: opened.url, poolMax: 1 })
    t.after(() => owner.close())
    // Given just now, so that no relay gives it again during the check.
    await owner.query(
      `update runtime.processes set due_at = now() - interval '2 minutes', given_at = now() + interval '1 hour' where id = 'silent'`,
    )
    const { ok, waitingMs } = await runtime.health()
    assert.ok(!ok && (waitingMs ?? 0) >= 120_000, `${ok} ${waitingMs}`)
    carrier.treat = (_turn, deliver) => void deliver(1)
    await owner.query(`update runtime.processes set given_at = now() - interval '1 hour' where id = 'silent'`)
    await until(() => isOver('silent'), 'the next hand-over')
  })

  test('a due turn that the engine keeps refusing makes health fail', async () => {
    const owner = openDb({ url: opened.url, poolMax: 1 })
    await runtime.wake({ kind: 'job', id: 'refused' }, { delayMs: 3_600_000 })
    carrier.refuses = 1_000
    await owner.query(`update runtime.processes set due_at = now() - interval '2 minutes' where id = 'refused'`)
    const gives = `select from runtime.processes where id = 'refused' and gives >= 2 and given_at is null`
    await until(async () => (await owner.query(gives)).length === 1, 'its second refusal')
    const { ok, waitingMs } = await runtime.health()
    assert.ok(!ok && (waitingMs ?? 0) >= 120_000, `${ok} ${waitingMs}`)
    carrier.refuses = 0
    await until(() => isOver('refused'), 'its turn')
    assert.equal((await runtime.health()).ok, true)
    await owner.close()
  })

  test('a process that moves to another queue during its turn keeps to the limits of that queue', async () => {
    const queues = { narrow: { concurrency: 1 } }
    const local = createRuntime({ db: opened.db, carrier: createTestCarrier(), queues })
    let [running, peak, ended] = [0, 0, 0]
    local.register('mover', async (id): Promise<Next> => {
      const process = { kind: 'mover', id }
      if ((await local.describe(process))?.queue !== 'narrow') {
        await local.wake(process, { queue: 'narrow' })
        return { t: 'again' }
      }
      peak = Math.max(peak, ++running)
      await sleep(50)
      running -= 1
      ended += 1
      return { t: 'done' }
    })
    assert.equal((await local.open()).ok, true)
    await Promise.all(['a', 'b', 'c'].map((id) => local.wake({ kind: 'mover', id })))
    await until(async () => ended === 3, 'three turns in the narrow queue')
    assert.equal(peak, 1)
    await local.close()
  })

  test('a wake that names another queue than the one in which the process waits needs no poll', async () => {
    const times = { sweepMs: 3_600_000 }
    const local = createRuntime({ db: opened.db, carrier: createTestCarrier(), queues: { other: {} }, times })
    const turns: string[] = []
    local.register('late', async (id) => {
      turns.push(id)
      return { t: 'done' }
    })
    assert.equal((await local.open()).ok, true)
    const process = { kind: 'late', id: 'elsewhere' }
    await local.wake(process, { queue: 'other', delayMs: 3_600_000 })
    await local.wake(process)
    await until(async () => turns.length === 1, 'its turn')
    await local.close()
  })

  test('a second worker opens quickly despite a backlog, with a limit and with its own queues', async () => {
    let finish = () => {}
    const gate = new Promise<void>((resolve) => (finish = resolve))
    drive = async () => {
      await gate
      return { t: 'done' }
    }
    for (let index = 0; index < 40; index++) await runtime.wake({ kind: 'job', id: `backlog-${index}` })
    await until(async () => driven.length > 0, 'the first turn')
    const queues = { concord_default: { concurrency: 1 } }
    for (const only of [undefined, ['concord_default']]) {
      const second = createRuntime({ db: opened.db, carrier: createTestCarrier(), queues, ...(only ? { only } : {}) })
      second.register('job', (id) => drive(id))
      const startedAt = performance.now()
      const ready = await second.open()
      assert.ok(ready.ok, ready.ok ? '' : ready.reason)
      assert.ok(performance.now() - startedAt < 10_000)
      await second.close()
    }
    const unknown = await createRuntime({ db: opened.db, carrier: createTestCarrier(), only: ['nothing'] }).open()
    assert.ok(
      !unknown.ok && !JSON.stringify(unknown).includes('runtime_proof'),
      'the queue of the test turn is internal',
    )
    finish()
    for (let index = 0; index < 40; index++) await until(() => isOver(`backlog-${index}`), `backlog-${index}`)
  })

  test('only a process that runs turns upgrades a usable installation', async (t) => {
    const owner = openDb({ url: opened.url, poolMax: 1 })
    t.after(() => owner.close())
    const version = async () =>
      (await owner.query<{ version: number }>('select version from runtime.installed'))[0]?.version
    const current = await version()
    await owner.query('update runtime.installed set version = 4')
    const openOnce = async (works: boolean) => {
      const other = createRuntime({ db: opened.db, carrier: createTestCarrier(), works })
      assert.equal((await other.open()).ok, true)
      await other.close()
      return version()
    }
    assert.equal(await openOnce(false), 4)
    assert.equal(await openOnce(true), current)
  })

  test('the row of a worker that crashed long ago without a running turn is deleted', async (t) => {
    const owner = openDb({ url: opened.url, poolMax: 1 })
    t.after(() => owner.close())
    await owner.query(
      `insert into runtime.executors (executor_id, lease_until) values ('long gone', now() - interval '2 hours')`,
    )
    const left = `select from runtime.executors where executor_id = 'long gone'`
    await until(async () => (await owner.query(left)).length === 0, 'its deletion')
  })

  test('turns from before a queue had partitions count as one partition', async () => {
    await runtime.defineQueue('parts', {})
    let finish = () => {}
    const gate = new Promise<void>((resolve) => (finish = resolve))
    drive = async () => {
      await gate
      return { t: 'done' }
    }
    for (const id of ['part-1', 'part-2']) await runtime.wake({ kind: 'job', id }, { queue: 'parts', delayMs: 300 })
    await runtime.defineQueue('parts', { partition: { concurrency: 1 } })
    await until(async () => driven.length > 0, 'the first turn')
    await sleep(200)
    assert.equal(driven.length, 1)
    finish()
    await until(async () => (await isOver('part-1')) && (await isOver('part-2')), 'both')
  })

  test('a rate holds across everything that is handed over', async () => {
    await runtime.defineQueue('slow', { rate: { turns: 2, perMs: 300 } })
    const at: number[] = []
    drive = async () => {
      at.push(performance.now())
      return { t: 'done' }
    }
    const from = performance.now()
    for (let index = 0; index < 6; index++) await runtime.wake({ kind: 'job', id: `slow-${index}` }, { queue: 'slow' })
    await until(async () => at.length === 6, 'six turns')
    // Two at once, the next two at least one period later, and the last at least two. A busy machine makes them later, never earlier.
    assert.ok((at[2] ?? 0) - from > 290 && (at[4] ?? 0) - from > 590, at.map((time) => time - from).join(', '))
  })

  test('an installation of version 3 continues: waiting turns are given, running turns are taken over by their lease', async (t) => {
    const owner = openDb({ url: opened.url, poolMax: 1 })
    t.after(() => owner.close())
    // As version 3 wrote them: a turn that waits in the engine, one that runs in a dead worker, a wake of an older program.
    await owner.query(
      `insert into runtime.processes (kind, id, state, turn, due_at, fence, attempt, queue, priority, executor)
       values ('job', 'v3-waits', 'queued', nextval('runtime.turn_numbers'), now(), 0, 0, 'concord_default', 0, null),
         ('job', 'v3-runs', 'running', nextval('runtime.turn_numbers'), now(), nextval('runtime.fence_numbers'), 1, 'concord_default', 0, 'gone')`,
    )
    const wake = `select outcome from runtime.wake('job', 'v3-wakes', 0, 'concord_default', 0, null, false, null, 'an executor', 'an owner')`
    assert.deepEqual(await owner.query(wake), [{ outcome: 'opened' }])
    for (const id of ['v3-waits', 'v3-runs', 'v3-wakes']) await until(() => isOver(id), id)
    assert.deepEqual(driven.toSorted(), ['v3-runs', 'v3-waits', 'v3-wakes'])
  })

  test('a close waits for a turn that arrives meanwhile and is given back: the engine is left with none that never ends', async () => {
    const other = createTestCarrier()
    const leaving = createRuntime({ db: opened.db, carrier: other, startsHere: false, times: { sweepMs: 20 } })
    leaving.register('parting', async () => ({ t: 'done' }))
    assert.ok((await leaving.open()).ok)
    const outcome = new Promise<string>((resolve) => {
      other.treat = (_turn, deliver) => {
        const closed = leaving.close().then(() => 'closed first')
        resolve(Promise.race([deliver(1), closed]))
      }
    })
    await leaving.wake({ kind: 'parting', id: 'last' })
    assert.equal(await outcome, 'returned')
    await leaving.close()
  })

  test('a turn that the engine delivers after the drain is given back, so that the close does not wait for it', async () => {
    const other = createTestCarrier()
    const leaving = createRuntime({ db: opened.db, carrier: other, startsHere: false, times: { sweepMs: 20 } })
    leaving.register('late', async () => ({ t: 'done' }))
    assert.ok((await leaving.open()).ok)
    const delivered = new Promise<(delivery: number) => Promise<string>>((resolve) => {
      other.treat = (_turn, deliver) => resolve(deliver)
    })
    await leaving.wake({ kind: 'late', id: 'last' })
    const deliver = await delivered
    const end = other.close
    let outcome = ''
    other.close = async (drainMs) => {
      outcome = await deliver(1)
      await end(drainMs)
    }
    await leaving.close()
    assert.equal(outcome, 'returned')
  })
})
