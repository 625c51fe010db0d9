/** For operators: what gets no more turns by itself, and another chance for it. Opens the database for just that long. */
import { encodeId } from '#kernel/ids'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { COMMAND_KIND } from '#domains/commands'
import type { Process, Runtime } from '#runtime'
import { createDbosRuntime } from '#runtime/dbos'
import { openDb } from '#store'
import type { Config } from './config.ts'
import { openLog } from './log.ts'
import { openStore } from './open-store.ts'

export type StuckWork = {
  readonly kind: string
  /** As people write it: a command by its `cmd_…`. */
  readonly id: string
  readonly why: string
  readonly detail: string
  readonly since: string
}

const LIMIT = 1_000

export function listStuckWork(config: Config): Promise<Decision<readonly StuckWork[]>> {
  return withRuntime(config, async (runtime) => accept(await listAll(runtime)))
}

/** All of them, or the one with this id; what was given another chance comes back. */
export function resumeWork(config: Config, id: string | undefined): Promise<Decision<readonly StuckWork[]>> {
  return withRuntime(config, async (runtime) => {
    const stuck = await runtime.stuck({ limit: LIMIT })
    const chosen = stuck.filter((each) => id === undefined || shownId(each) === id || each.id === id)
    if (id !== undefined && chosen.length === 0) {
      return refuse('runtime.process.not_stuck', `nothing with the id ${id.slice(0, 80)} is stuck`, {
        path: 'id',
        hint: '`concord stuck` lists what is',
      })
    }
    // Somebody else may have been faster: then it is not stuck any more, which is all that was asked for.
    for (const process of chosen) await runtime.resume(process)
    return accept(chosen.map(viewOf))
  })
}

async function listAll(runtime: Runtime): Promise<readonly StuckWork[]> {
  return (await runtime.stuck({ limit: LIMIT })).map(viewOf)
}

function viewOf(stuck: Awaited<ReturnType<Runtime['stuck']>>[number]): StuckWork {
  const { kind, why, detail, since } = stuck
  return { kind, id: shownId(stuck), why, detail, since: since.toISOString() }
}

function shownId({ kind, id }: Process): string {
  return kind === COMMAND_KIND ? encodeId('command', id) : id
}

async function withRuntime<T>(config: Config, work: (runtime: Runtime) => Promise<Decision<T>>): Promise<Decision<T>> {
  const store = await openStore(config, openLog(config.logLevel ?? 'error'))
  if (!store.ok) return store
  const db = openDb({ url: store.value.url, role: 'concord_engine', poolMax: 1 })
  const runtime = createDbosRuntime({ db, works: false })
  try {
    const opened = await runtime.open()
    return opened.ok ? await work(runtime) : opened
  } finally {
    await runtime.close()
    await db.close()
    await store.value.close()
  }
}
