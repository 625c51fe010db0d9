/** The reference runtime passes the runtime suite. */
import { setImmediate as tick } from 'node:timers/promises'
import { openMemoryStore, openReferenceRuntime, seededRandom } from '#test/reference-runtime/index'
import type { CaseStore, CaseTx, OpenCase } from './runtime-bench.case.ts'
import { runtimeCases } from './runtime.case.ts'

const open: OpenCase = async (setUp) => {
  const memory = openMemoryStore()
  const store: CaseStore = {
    // A case knows the type that it has written under a key.
    read: async <T>(key: string) => memory.get(key) as T | undefined,
    transaction: (work) =>
      memory.transaction((tx) => {
        const shown: CaseTx = {
          inTransaction: true,
          afterCommit: tx.afterCommit,
          read: async <T>(key: string) => tx.get(key) as T | undefined,
          write: async (key, value) => tx.set(key, value),
          fence: async (key, token) => tx.fence(key, token).ok,
        }
        return work(shown)
      }),
  }
  const runtime = openReferenceRuntime({ random: seededRandom(1) })
  async function start(): Promise<void> {
    await setUp(runtime, store)
    const opened = await runtime.open()
    if (!opened.ok) throw new Error(`${opened.code}: ${opened.reason}`)
  }
  await start()
  return {
    runtime,
    store,
    async crash() {
      runtime.crash()
      await start()
    },
    async join() {
      runtime.join(async ({ kind, id }) => {
        await store.transaction((tx) => tx.write(`stranger:${kind}:${id}`, true))
        return { t: 'done' }
      })
      await runtime.settle()
    },
    pass: (ms) => runtime.advance(ms),
    passForSchedules: (ms) => runtime.advance(ms),
    async reach(fact) {
      for (;;) {
        const found = await fact()
        if (found !== undefined && found !== false) return found
        await tick()
      }
    },
    close: () => runtime.close(),
  }
}

runtimeCases({ name: 'reference', open })
