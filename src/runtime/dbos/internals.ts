/**
 * The only file that uses the engine's internals, pinned to one version. Each use has a public alternative that does
 * the same more slowly; `avoid` selects it, and the suite runs both.
 *
 * | internal name | reason | public alternative |
 * |---|---|---|
 * | `wfQueueRunner.pollQueue`, with the executor and its count of running workflows | a turn begins a few ms after its hand-over, and an idle worker sends no polls | the engine polls every queue every 50 ms |
 * | `ensureSystemDatabase` | creates the engine's tables over our own connections | `DBOS.migrate`, which needs a maintenance database |
 */
import { DBOS, type WorkflowQueue } from '@dbos-inc/dbos-sdk'
import { DBOSExecutor } from '@dbos-inc/dbos-sdk/internal/dbos-executor'
import { ensureSystemDatabase } from '@dbos-inc/dbos-sdk/internal/system_database'
import { wfQueueRunner } from '@dbos-inc/dbos-sdk/internal/wfqueue'
import type { Db } from '#store'

/** The version that this file was written for; a test compares it with the installed version. */
export const ENGINE_VERSION = '5.3.0'

export type InternalsMode = 'use' | 'avoid'
export type EngineLogger = Record<'debug' | 'info' | 'warn' | 'error', (entry: unknown) => void>

/** Runs under the launch lock, since the engine itself takes no lock. */
export async function migrateEngine(db: Db, logger: EngineLogger, mode: InternalsMode): Promise<void> {
  if (mode === 'avoid' || typeof ensureSystemDatabase !== 'function') return DBOS.migrate(db.config.url)
  // It calls the four methods of a logger and nothing else of its class.
  const log = logger as unknown as Parameters<typeof ensureSystemDatabase>[1]
  await ensureSystemDatabase(db.config.url, log, db.pool, 'dbos', false)
}

type Poller = { pollQueue(executor: DBOSExecutor, queue: WorkflowQueue): Promise<boolean> }

/** Undefined when the engine has to poll by itself. */
export type PollNow = (queue: WorkflowQueue, free: number) => Promise<void>

/** Call after the launch. Takes at most `free` turns of the queue. Checks at run time that the internal names exist. */
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
