/**
 * Real worker processes on DBOS: sixteen that start at once, one that is killed, one that is frozen and thaws, and one of an
 * older version.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createDbosRuntime } from '#test/dbos-runtime'
import { openChance } from '#test/chance'
import { freshDatabase, openTestDb, type TestDb } from '#test/database'
import { type CaseRows, openCaseStore } from '#test/runtime-case-store'
import { aRuntimeWorker, type RuntimeWorker } from '#test/runtime-worker'

type Steps = { readonly step: number; readonly of: number; readonly by: readonly number[] }

describe('worker processes', () => {
  let opened: TestDb
  let store: CaseRows
  /** Wakes processes and runs no turns. */
  let client: ReturnType<typeof createDbosRuntime>
  const workers: RuntimeWorker[] = []

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
    store = await openCaseStore(opened)
    for (let count = 0; count < 2; count++) {
      workers.push(await aRuntimeWorker(opened.url, { drive: 'steps', prefix: store.prefix }))
    }
    client = createDbosRuntime({ db: opened.db, works: false })
    assert.equal((await client.open()).ok, true)
  })
  after(async () => {
    await Promise.all(workers.map((worker) => worker.kill()))
    await client?.close()
    await opened.close()
  })

  async function start(id: string, of: number): Promise<void> {
    await store.transaction(async (tx) => {
      await tx.write(id, { step: 0, of, by: [] })
      await client.wake({ kind: 'job', id }, { tx })
    })
  }

  async function reach(id: string, isThere: (steps: Steps) => boolean): Promise<Steps> {
    for (;;) {
      const steps = await store.read<Steps>(id)
      if (steps && isThere(steps)) return steps
      await sleep(5)
    }
  }

  /**
   * Work that one of the two workers was frozen in. On a busy machine it may have ended before, or the frozen worker may hold an
   * open transaction that would block the other; then another piece of work is used.
   */
  async function freezeInWork(
    name: string,
    of: number,
  ): Promise<{ held: string; from: Steps; victim: RuntimeWorker; other: RuntimeWorker }> {
    for (let count = 0; ; count++) {
      const held = `${name}-${count}`
      await start(held, of)
      const { by } = await reach(held, ({ step }) => step > 0)
      const victim = workers.find(({ pid }) => pid === by[0])
      const other = workers.find(({ pid }) => pid !== by[0])
      victim?.signal('SIGSTOP')
      const [row] = await opened.db.query<{ isFree: boolean }>(
        'select pg_try_advisory_xact_lock(hashtextextended($1, 1)) as "isFree"',
        [store.prefix + held],
      )
      const from = await store.read<Steps>(held)
      if (victim && other && row?.isFree && from && from.step < of) return { held, from, victim, other }
      victim?.signal('SIGCONT')
    }
  }

  test('[RUN-08] a worker that is frozen loses its turn to the other; when it comes back, its write is refused', async (t) => {
    const { held, from, victim, other } = await freezeInWork('frozen', 40)
    const frozenAt = performance.now()
    const taken = await reach(held, ({ by }) => by.at(-1) === other.pid)
    t.diagnostic(`taken over ${Math.round(performance.now() - frozenAt)} ms after SIGSTOP`)
    victim.signal('SIGCONT')
    assert.equal(await victim.next(), `refused ${held}`)
    const end = await reach(held, ({ step, of }) => step === of)
    // No step happens twice: first the steps of the first worker, then those of the second.
    assert.equal(end.by.length, 40)
    const change = end.by.indexOf(other.pid)
    assert.ok(change >= from.step && change <= taken.by.length)
    assert.ok(
      end.by.slice(change).every((pid) => pid === other.pid),
      'the frozen worker wrote after the other',
    )
  })

  test('[RUN-08] what a killed worker was doing goes on in the other', async (t) => {
    const { held, victim, other } = await freezeInWork('killed', 40)
    await victim.kill()
    const killedAt = performance.now()
    await reach(held, ({ by }) => by.at(-1) === other.pid)
    t.diagnostic(`taken over ${Math.round(performance.now() - killedAt)} ms after SIGKILL`)
    const end = await reach(held, ({ step, of }) => step === of)
    const change = end.by.indexOf(other.pid)
    assert.ok(change > 0)
    assert.deepEqual(new Set(end.by.slice(change)), new Set([other.pid]))
    assert.equal(end.by.length, 40)
  })
})

test('[RUN-08] while workers are killed and replaced, no fact is left unseen', async (t) => {
  const opened = await freshDatabase(t, { role: 'concord_engine', poolMax: 8 })
  const store = await openCaseStore(opened)
  const client = createDbosRuntime({ db: opened.db, works: false })
  assert.equal((await client.open()).ok, true)
  const aWorker = () => aRuntimeWorker(opened.url, { drive: 'facts', prefix: store.prefix, times: { leaseMs: 1_000 } })
  const workers = [await aWorker(), await aWorker()]
  const ids = Array.from({ length: 12 }, (_, index) => `p${index}`)
  const FACTS = 25
  const chance = openChance('facts')
  try {
    const killing = (async () => {
      for (let kill = 0; kill < 3; kill++) {
        const next = aWorker()
        await sleep(300)
        await workers.shift()?.kill()
        workers.push(await next)
      }
    })()
    await Promise.all(
      ids.map(async (id) => {
        for (let fact = 0; fact < FACTS; fact++) {
          await store.transaction(async (tx) => {
            const facts = (await tx.read<number[]>(`${id}:facts`)) ?? []
            await tx.write(`${id}:facts`, [...facts, fact])
            await client.wake({ kind: 'job', id }, { tx })
          })
          await sleep(chance.whole(120))
        }
      }),
    )
    await killing
    for (const id of ids) {
      while ((await store.read<number>(`${id}:seen`)) !== FACTS || (await client.describe({ kind: 'job', id })))
        await sleep(10)
    }
    assert.deepEqual(await client.stuck(), [])
  } finally {
    await Promise.all(workers.map((worker) => worker.kill()))
    await client.close()
  }
})

test('a kind that only one of two workers drives is driven by that one; without it the process is stuck', async (t) => {
  const opened = await freshDatabase(t, { role: 'concord_engine', poolMax: 8 })
  const store = await openCaseStore(opened)
  const client = createDbosRuntime({ db: opened.db, works: false })
  assert.equal((await client.open()).ok, true)
  const times = { leaseMs: 1_000 }
  // Half of a rolling deployment: the old worker does not know the kind.
  const old = await aRuntimeWorker(opened.url, { drive: 'none', prefix: store.prefix, times })
  const young = await aRuntimeWorker(opened.url, { drive: 'stranger', prefix: store.prefix, times })
  try {
    const ids = Array.from({ length: 60 }, (_, index) => `p${index}`)
    for (const id of ids) await client.wake({ kind: 'job', id })
    for (const id of ids) {
      while (!(await store.read(`stranger:job:${id}`)) || (await client.describe({ kind: 'job', id }))) await sleep(10)
    }
    assert.deepEqual(await client.stuck(), [])
    await young.kill()
    await client.wake({ kind: 'job', id: 'late' })
    while ((await client.stuck()).length === 0) await sleep(10)
    const [late] = await client.stuck()
    assert.deepEqual([late?.id, late?.why], ['late', 'no_driver'])
  } finally {
    await Promise.all([old.kill(), young.kill()])
    await client.close()
  }
})

test('sixteen processes that start at once on an empty database all open', async (t) => {
  const { url, db } = await freshDatabase(t, { migrated: false })
  const started = await Promise.allSettled(
    Array.from({ length: 16 }, () => aRuntimeWorker(url, { drive: 'none', prefix: '' })),
  )
  try {
    const failed = started.flatMap((each) => (each.status === 'rejected' ? [String(each.reason)] : []))
    assert.deepEqual(failed, [])
    const [row] = await db.query<{ engine: string; own: string; alive: string }>(
      `select (select count(*) from "dbos".dbos_migrations) as engine, (select count(*) from runtime.installed) as own,
         (select count(*) from runtime.executors) as alive`,
    )
    assert.deepEqual(row, { engine: '1', own: '1', alive: '16' })
  } finally {
    await Promise.all(started.flatMap((each) => (each.status === 'fulfilled' ? [each.value.kill()] : [])))
  }
})
