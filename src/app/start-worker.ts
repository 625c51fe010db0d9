/** A worker process: runs work without the API. Any number of workers share one database. */
import { accept, type Decision } from '#kernel/refusal'
import { openClosers, openOrClose } from './lifecycle.ts'
import { openLog } from './log.ts'
import { openBase, type StartOptions } from './open-base.ts'
import { systemDeps } from './system-deps.ts'

export type RunningWorker = {
  readonly database: string
  readonly schemaVersion: number
  close(): Promise<void>
}

export async function startWorker(options: StartOptions): Promise<Decision<RunningWorker>> {
  const { deps = systemDeps(), log = openLog(options.config.logLevel) } = options
  const closers = openClosers(log)
  return openOrClose(closers, async () => {
    const base = await openBase(options, deps, log, closers)
    if (!base.ok) return base
    await base.value.work.startSchedules()
    const { database, schemaVersion } = base.value
    return accept({ database, schemaVersion, close: () => closers.closeAll() })
  })
}
