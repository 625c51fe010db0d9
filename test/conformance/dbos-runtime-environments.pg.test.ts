/** Two environments on one engine: they share queue names, have separate limits, and never take each other's turns. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { inEnvironment, queuesIn, type Runtime } from '#runtime'
import { createDbosRuntime } from '#test/dbos-runtime'
import { openDb } from '#store'
import { openTestDb, type TestDb } from '#test/database'
import { type CaseRows, openCaseStore } from '#test/runtime-case-store'
import { aRuntimeWorker, type RuntimeWorker } from '#test/runtime-worker'
import { until } from '#test/until'

const limits = { staging: { perWorker: 2 }, production: { perWorker: 3 } } as const
type Environment = keyof typeof limits
const names = ['staging', 'production'] as const

describe('environments on one engine', () => {
  let opened: TestDb
  let store: CaseRows
  const workers = new Map<Environment, RuntimeWorker>()
  /** Neither runs turns, so both fit into this process. */
  const clients = new Map<Environment, Runtime>()

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine', poolMax: 6 })
    store = await openCaseStore(opened)
    for (const environment of names) {
      const queues = { connector_calls: limits[environment] }
      const options = { drive: 'busy', prefix: store.prefix, environment, queues } as const
      workers.set(environment, await aRuntimeWorker(opened.url, options))
      const engine = createDbosRuntime({ db: opened.db, works: false, queues: queuesIn(environment, queues).queues })
      const client = inEnvironment(engine, environment)
      client.register('job', () => Promise.resolve({ t: 'done' }), { queue: 'connector_calls' })
      assert.equal((await client.open()).ok, true)
      clients.set(environment, client)
    }
  })
  after(async () => {
    for (const client of clients.values()) await client.close()
    for (const worker of workers.values()) await worker.kill()
    await opened?.close()
  })

  const of = <T>(map: ReadonlyMap<Environment, T>, environment: Environment): T =>
    map.get(environment) ?? assert.fail(environment)
  const idsOf = (environment: Environment) => Array.from({ length: 8 }, (_, at) => `${environment}-${at}`)
  const read = <T>(ids: readonly string[], what: string) => Promise.all(ids.map((id) => store.read<T>(`${id}:${what}`)))
  const count = async (ids: readonly string[], what: string) =>
    (await read(ids, what)).filter((value) => value !== undefined).length

  test('[OQ-10] one word for a queue, a namespace in the engine: each environment keeps to its own turns and its own limits', async () => {
    // Under its public name, whether it is given or comes from the kind.
    for (const environment of names)
      for (const id of idsOf(environment))
        await of(clients, environment).wake({ kind: 'job', id }, id.endsWith('0') ? {} : { queue: 'connector_calls' })
    for (const environment of names)
      await until(
        async () => (await count(idsOf(environment), 'begun')) === limits[environment].perWorker,
        `a full worker of ${environment}`,
      )
    const waiting = await of(clients, 'staging').describe({ kind: 'job', id: 'staging-7' })
    assert.equal(waiting?.queue, 'connector_calls')
    // For the other environment it is a foreign queue.
    const foreign = await of(clients, 'production').describe({ kind: 'job', id: 'staging-7' })
    assert.equal(foreign?.queue, 'staging__connector_calls')

    await store.transaction((tx) => tx.write('open', true))
    for (const environment of names) {
      const ids = idsOf(environment)
      await until(async () => (await count(ids, 'done')) === ids.length, `the end of ${environment}`)
      const ends = await read<{ by: number; peak: number }>(ids, 'done')
      assert.deepEqual(new Set(ends.map((end) => end?.by)), new Set([of(workers, environment).pid]))
      assert.equal(Math.max(...ends.map((end) => end?.peak ?? 0)), limits[environment].perWorker)
    }
  })

  test('[OQ-10] what a dead worker of an environment had begun waits for a worker of that environment, whoever else is there', async () => {
    await store.transaction((tx) => tx.write('open', false))
    const victim = of(workers, 'staging')
    await of(clients, 'staging').wake({ kind: 'job', id: 'left' })
    await until(async () => (await store.read('left:begun')) === victim.pid, 'a turn under way')
    await victim.kill()
    await store.transaction((tx) => tx.write('open', true))
    const owner = openDb({ url: opened.url, poolMax: 1 })
    await until(async () => {
      const alive = await owner.query(`select from runtime.executors where executor_id like '%-' || $1 || '-%'`, [
        String(victim.pid),
      ])
      return alive.length === 0
    }, 'somebody who notices')
    await owner.close()
    // The living worker has put the turn back and does its own work.
    for (const id of ['p1', 'p2', 'p3']) await of(clients, 'production').wake({ kind: 'job', id })
    await until(async () => (await count(['p1', 'p2', 'p3'], 'done')) === 3, 'the work of production')
    assert.equal(await count(['left'], 'done'), 0)
    const heir = await aRuntimeWorker(opened.url, { drive: 'busy', prefix: store.prefix, environment: 'staging' })
    workers.set('staging', heir)
    await until(async () => (await count(['left'], 'done')) === 1, 'what was left')
    assert.equal((await store.read<{ by: number }>('left:done'))?.by, heir.pid)
  })

  test('[OQ-10] a schedule is shown under the names it was made with, and its firing is the environment’s own', async () => {
    const client = of(clients, 'staging')
    const spec = {
      name: 'hourly',
      cron: '0 * * * *',
      overlap: 'allow',
      missed: 'skip',
      kind: 'job',
      queue: 'notifications',
    } as const
    const saved = await client.schedule(spec)
    assert.ok(saved.ok)
    assert.equal(saved.value.spec.queue, 'notifications')
    assert.equal((await client.describeSchedule('hourly'))?.spec.queue, 'notifications')
    const foreign = await of(clients, 'production').describeSchedule('hourly')
    assert.equal(foreign?.spec.queue, 'staging__notifications')
    assert.equal(await client.unschedule('hourly'), true)
  })
})
