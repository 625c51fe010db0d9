/**
 * The only file that reaches behind the engine's public door, pinned to one version. Each reach has a public way that does
 * the same more slowly; `avoid` takes it.
 *
 * | reach | public way |
 * |---|---|
 * | poll a queue now, under our own lock | the engine polls by itself, every 50 ms |
 * | start a turn whose row we wrote as claimed (`runtime.engine_start`, `runtime.engine_claim`) | enqueue it and poll |
 * | put the turns of a dead worker back into their queues | list them and resume each |
 * | bring the engine's tables in, over our own connections | the same over its own, which needs a maintenance database |
 */
import { DBOS, type WorkflowQueue } from '@dbos-inc/dbos-sdk'
import { DBOSExecutor } from '@dbos-inc/dbos-sdk/internal/dbos-executor'
import { ensureSystemDatabase } from '@dbos-inc/dbos-sdk/internal/system_database'
import { wfQueueRunner } from '@dbos-inc/dbos-sdk/internal/wfqueue'
import type { Db } from '#store'

/** The version that this file was written for; a test compares it with the installed one. */
export const ENGINE_VERSION = '5.3.0'
export const APPLICATION = 'concord'
/** Not the version of the program: nothing that waits has code on a stack, so every version may take every turn. */
export const APPLICATION_VERSION = 'concord-turn-1'
export const WORKFLOW = 'concord.turn.v1'
export const PUBLIC_POLL_MS = 50

export type StartedTurn = {
  readonly name: string
  readonly args: readonly [kind: string, id: string, turn: number, queue: string]
  readonly owner: string
}

export type Internals = {
  readonly canStart: boolean
  readonly canPoll: boolean
  /** True when another worker was claiming at the same moment. */
  poll(queue: WorkflowQueue): Promise<boolean>
  start(turn: StartedTurn): Promise<void>
  recover(executorId: string): Promise<void>
}

export type EngineLogger = Record<'debug' | 'info' | 'warn' | 'error', (entry: unknown) => void>

/** Under the launch lock: the engine itself takes none. */
export async function migrateEngine(db: Db, logger: EngineLogger, mode: 'use' | 'avoid'): Promise<void> {
  if (mode === 'avoid' || typeof ensureSystemDatabase !== 'function') return DBOS.migrate(db.config.url)
  // It calls the four methods of a logger and nothing else of its class.
  const log = logger as unknown as Parameters<typeof ensureSystemDatabase>[1]
  await ensureSystemDatabase(db.config.url, log, db.pool, 'dbos', false)
}

type Poller = { pollQueue(executor: DBOSExecutor, queue: WorkflowQueue): Promise<boolean> }

export function openInternals(mode: 'use' | 'avoid'): Internals {
  const executor = DBOSExecutor.globalInstance
  // A private method of the runner; whether it is still there is looked at, not believed.
  const poller = wfQueueRunner as unknown as Partial<Poller>
  const isThere = mode === 'use' && executor !== undefined
  const canPoll = isThere && typeof poller.pollQueue === 'function'
  const canStart = isThere && typeof executor.executeDequeuedWorkflow === 'function'
  const canRecover = isThere && typeof executor.recoverPendingWorkflows === 'function'
  return {
    canPoll,
    canStart,
    poll: async (queue) => (canPoll ? ((await poller.pollQueue?.(executor, queue)) ?? false) : false),
    async start({ name, args, owner }) {
      const nobody = { authenticatedUser: '', assumedRole: '', authenticatedRoles: [], applicationID: '' }
      const input = JSON.stringify({ positionalArgs: args, namedArgs: {} })
      const names = { workflowUUID: name, workflowName: WORKFLOW, workflowClassName: '', workflowConfigName: '' }
      const open = {
        status: 'PENDING',
        output: null,
        error: null,
        recoveryAttempts: 1,
        executorId: executor?.executorID ?? '',
      }
      const row = {
        ...names,
        ...nobody,
        ...open,
        queueName: args[3],
        priority: 0,
        input,
        serialization: 'portable_json',
      }
      await executor?.executeDequeuedWorkflow(row, owner)
    },
    async recover(executorId) {
      if (canRecover) {
        await executor.recoverPendingWorkflows([executorId])
        return
      }
      const left = await DBOS.listWorkflows({ executorId, status: 'PENDING', loadInput: false, loadOutput: false })
      await Promise.all(
        left.map(({ workflowID, queueName }) =>
          DBOS.resumeWorkflow(workflowID, queueName === undefined ? {} : { queueName }),
        ),
      )
    },
  }
}
