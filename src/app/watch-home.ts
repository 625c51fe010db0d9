/** Watches the data folder of a running process, which must not go on without it: its database, artifacts and keys are there. */
import { stat } from 'node:fs/promises'
import type { Refusal } from '#kernel/refusal'
import { hasCluster, homeGone } from '#store'
import type { Config } from './config.ts'
import { every, FINISHED } from './lifecycle.ts'
import type { Log } from './log.ts'

const LOOK_MS = 1_000

type WatchedHome = {
  /** Resolves when the folder is gone. */
  readonly lost: Promise<Refusal>
  close(): Promise<void>
}

/** A process with a database elsewhere may have no folder. It then watches nothing. */
export async function watchHome({ home, databaseUrl }: Config, log: Log): Promise<WatchedHome> {
  const isThere = () => (databaseUrl === undefined ? hasCluster(home) : exists(home))
  if (!(await isThere())) return { lost: new Promise(() => {}), close: async () => {} }
  const { promise: lost, resolve } = Promise.withResolvers<Refusal>()
  const look = async () => {
    if (await isThere()) return undefined
    const gone = homeGone(home)
    log.fatal({ code: gone.code }, gone.reason)
    resolve(gone)
    return FINISHED
  }
  return { lost, close: every(LOOK_MS, look, log) }
}

async function exists(folder: string): Promise<boolean> {
  const found = await stat(folder).catch((error: NodeJS.ErrnoException) => error)
  return !(found instanceof Error) || found.code !== 'ENOENT'
}
