/** For operators: what gets no more turns by itself, and another chance for it. Opens the database for just that long. */
import { encodeId } from '#kernel/ids'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { COMMAND_KIND, listParked } from '#domains/commands'
import type { Process, Runtime } from '#runtime'
import { createDbosRuntime } from '#runtime/dbos'
import { type Db, openDb } from '#store'
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
  return withRuntime(config, async (runtime, db) => accept((await listAll(runtime, db)).map(({ work }) => work)))
}

/** All of them, or the one with this id; what was given another chance comes back. */
export function resumeWork(config: Config, id: string | undefined): Promise<Decision<readonly StuckWork[]>> {
  return withRuntime(config, async (runtime, db) => {
    const all = await listAll(runtime, db)
    const chosen = all.filter(({ work, process }) => id === undefined || work.id === id || process.id === id)
    if (id !== undefined && chosen.length === 0) {
      return refuse('runtime.process.not_stuck', `nothing with the id ${id.slice(0, 80)} is stuck`, {
        path: 'id',
        hint: '`concord stuck` lists what is',
      })
    }
    // Somebody else may have been faster: then it is not stuck any more, which is all that was asked for.
    for (const { process, isParked } of chosen) await (isParked ? runtime.wake(process) : runtime.resume(process))
    return accept(chosen.map(({ work }) => work))
  })
}

type Found = { readonly work: StuckWork; readonly process: Process; readonly isParked: boolean }

/** What the runtime has given up, and commands that look in vain for their task. */
async function listAll(runtime: Runtime, db: Db): Promise<readonly Found[]> {
  const stuck = await runtime.stuck({ limit: LIMIT })
  const parked = await listParked(db, LIMIT)
  return [
    ...stuck.map((each) => {
      const { kind, why, detail, since } = each
      const work = { kind, id: shownId(each), why, detail, since: since.toISOString() }
      return { work, process: each, isParked: false }
    }),
    ...parked.map(({ command_id, error, since }) => {
      const process = { kind: COMMAND_KIND, id: command_id }
      const work = {
        kind: COMMAND_KIND,
        id: shownId(process),
        why: 'task_gone',
        detail: error,
        since: since.toISOString(),
      }
      return { work, process, isParked: true }
    }),
  ]
}

function shownId({ kind, id }: Process): string {
  return kind === COMMAND_KIND ? encodeId('command', id) : id
}

async function withRuntime<T>(
  config: Config,
  work: (runtime: Runtime, db: Db) => Promise<Decision<T>>,
): Promise<Decision<T>> {
  const store = await openStore(config, openLog(config.logLevel ?? 'error'))
  if (!store.ok) return store
  const db = openDb({ url: store.value.url, role: 'concord_engine', poolMax: 1 })
  const runtime = createDbosRuntime({ db, works: false })
  try {
    const opened = await runtime.open()
    return opened.ok ? await work(runtime, db) : opened
  } finally {
    await runtime.close()
    await db.close()
    await store.value.close()
  }
}
