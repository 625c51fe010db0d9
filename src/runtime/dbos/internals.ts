/**
 * The only file that reaches behind the engine's public door, pinned to one version. Each reach has a public way that does
 * the same more slowly; `avoid` takes it, and the suite runs both.
 *
 * | reach | reason | public way |
 * |---|---|---|
 * | `wfQueueRunner.pollQueue`, with the executor and its count of running workflows | a turn begins some ms after it was handed over, and a worker without a reason to look asks nothing | the engine polls every queue by itself, every 50 ms |
 * | `ensureSystemDatabase` | brings the engine's tables in over our own connections | `DBOS.migrate`, which needs a maintenance database |
 */
import { DBOS, type WorkflowQueue } from '@dbos-inc/dbos-sdk'
import { DBOSExecutor } from '@dbos-inc/dbos-sdk/internal/dbos-executor'
import { ensureSystemDatabase } from '@dbos-inc/dbos-sdk/internal/system_database'
import { wfQueueRunner } from '@dbos-inc/dbos-sdk/internal/wfqueue'
import type { Db } from '#store'

/** The version that this file was written for; a test compares it with the installed one. */
export const ENGINE_VERSION = '5.3.0'

export type InternalsMode = 'use' | 'avoid'
export type EngineLogger = Record<'debug' | 'info' | 'warn' | 'error', (entry: unknown) => void>

/** Under the launch lock: the engine itself takes none. */
export async function migrateEngine(db: Db, logger: EngineLogger, mode: InternalsMode): Promise<void> {
  if (mode === 'avoid' || typeof ensureSystemDatabase !== 'function') return DBOS.migrate(db.config.url)
  // It calls the four methods of a logger and nothing else of its class.
  const log = logger as unknown as Parameters<typeof ensureSystemDatabase>[1]
  await ensureSystemDatabase(db.config.url, log, db.pool, 'dbos', false)
}

type Poller = { pollQueue(executor: DBOSExecutor, queue: WorkflowQueue): Promise<boolean> }

/** Undefined: the engine has to poll by itself. */
export type PollNow = (queue: WorkflowQueue, free: number) => Promise<void>

/** After the launch. Takes at most `free` turns of the queue. Whether the names are there is looked at, not believed. */
export function findPoll(mode: InternalsMode): PollNow | undefined {
  const executor = DBOSExecutor.globalInstance
  const poller = wfQueueRunner as unknown as Partial<Poller>
  if (mode === 'avoid' || !executor || typeof poller.pollQueue !== 'function') return undefined
  return async (queue, free) => {
    const running = executor.systemDatabase.countRunningWorkflowsForQueue(queue.name)
    const limited: WorkflowQueue = Object.assign(Object.create(Object.getPrototypeOf(queue) as object), queue, {
      workerConcurrency: running + free,
    })
    await poller.pollQueue?.(executor, limited)
  }
}
