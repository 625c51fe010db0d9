/** Keeps the engine's tables small: its record of a turn is only working storage. */
import { DBOS } from '@dbos-inc/dbos-sdk'
import type { Db } from '#store'

const LOCK = 'concord.runtime.retention'
const BATCH_MAX = 500

type Filter = NonNullable<Parameters<typeof DBOS.listWorkflows>[0]>

/** Deletes at most one batch and returns the number of deleted turns. */
async function deleteTurns(filter: Filter, isLeft: (executorId: string | undefined) => boolean): Promise<number> {
  const found = await DBOS.listWorkflows({ ...filter, limit: BATCH_MAX, loadInput: false, loadOutput: false })
  const left = found.filter(({ executorId }) => isLeft(executorId))
  if (left.length > 0) await DBOS.deleteWorkflows(left.map(({ workflowID }) => workflowID))
  return left.length
}

/**
 * Runs in one process at a time and deletes in batches, so that no transaction gets long. Deletes ended turns, and turns that a dead
 * worker left or no worker took: the book has long handed those over again under another name. Without `workflowName` the engine would
 * also list workflows of other programs that have no application name.
 */
export async function cleanEngine(db: Db, keepMs: number, workflowName: string[]): Promise<void> {
  const client = await db.connect('concord-runtime-retention')
  try {
    const { rows } = await client.query<{ won: boolean }>('select pg_try_advisory_lock(hashtext($1)) as won', [LOCK])
    if (!rows[0]?.won) return
    const before = new Date(Date.now() - keepMs).toISOString()
    const ended: Filter = {
      workflowName,
      completedBefore: before,
      status: ['SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'],
    }
    while ((await deleteTurns(ended, () => true)) === BATCH_MAX);
    const alive = await db.query<{ executor_id: string }>(
      'select executor_id from runtime.executors where lease_until > clock_timestamp()',
    )
    const living = new Set(alive.map(({ executor_id }) => executor_id))
    const left: Filter = { workflowName, endTime: before, status: ['PENDING', 'ENQUEUED', 'DELAYED'] }
    while ((await deleteTurns(left, (executorId) => !living.has(executorId ?? ''))) === BATCH_MAX);
  } finally {
    await client.end()
  }
}
