/**
 * The DBOS runtime passes the runtime suite: as it ships, with every turn through the engine, and on the public interface of the
 * engine alone.
 */
import { after, before, describe } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { BookRuntime } from '#runtime/book'
import { createDbosRuntime } from '#test/dbos-runtime'
import { openTestDb, type TestDb } from '#test/database'
import { openCaseStore } from '#test/runtime-case-store'
import { aRuntimeWorker } from '#test/runtime-worker'
import type { CaseBench, OpenCase } from './runtime-bench.case.ts'
import { runtimeCases } from './runtime.case.ts'

let opened: TestDb

const openWith =
  (how: { readonly internals?: 'use' | 'avoid'; readonly startsHere?: boolean }): OpenCase =>
  async (setUp) => {
    const store = await openCaseStore(opened)
    let scheduleAheadMs = 0
    let current: BookRuntime | undefined
    const strangers: { kill(): Promise<void> }[] = []

    async function start(): Promise<BookRuntime> {
      const runtime = createDbosRuntime({
        db: opened.db,
        ...how,
        times: { leaseMs: 600, reapMs: 100 },
        scheduleAheadMs: () => scheduleAheadMs,
      })
      await setUp(runtime, store)
      const ready = await runtime.open()
      if (!ready.ok) throw new Error(`${ready.code}: ${ready.reason}`)
      return runtime
    }
    current = await start()

    /** Their turns are due by the real clock; the clock that they see is ahead of it. */
    async function wakeSchedules(): Promise<void> {
      if (!current?.executorId) return
      for (const { name } of await store.schedules()) await current.wake({ kind: 'schedule', id: name })
    }

    const bench: CaseBench = {
      get runtime() {
        if (!current) throw new Error('no worker runs')
        return current
      },
      store,
      async crash() {
        await current?.halt()
        current = await start()
        await wakeSchedules()
      },
      async join() {
        strangers.push(await aRuntimeWorker(opened.url, { drive: 'stranger', prefix: store.prefix }))
      },
      pass: (ms) => sleep(ms),
      async passForSchedules(ms) {
        scheduleAheadMs += ms
        await wakeSchedules()
      },
      async reach(fact) {
        for (;;) {
          const found = await fact()
          if (found !== undefined && found !== false) return found
          await sleep(5)
        }
      },
      async close() {
        await Promise.all(strangers.map((stranger) => stranger.kill()))
        await current?.close({ drainMs: 0 })
        await store.clear()
      },
    }
    return bench
  }

describe('the runtime on DBOS', () => {
  before(async () => {
    // The role of the service may wake processes but not touch the tables of the engine.
    opened = await openTestDb({ role: 'concord_engine', poolMax: 8 })
  })
  after(() => opened.close())

  runtimeCases({ name: 'dbos', open: openWith({}) })
  runtimeCases({ name: 'dbos, every turn through the engine', open: openWith({ startsHere: false }) })

  /** Only the source of the turns differs. */
  const differing =
    /wake gives|commits with its fact|less than the facts|delayed wake|due time, and|comes back after|smaller priority/
  const inPublic = openWith({ internals: 'avoid', startsHere: false })
  runtimeCases({ name: 'dbos, public interface', open: inPublic, some: (title) => differing.test(title) })
})
