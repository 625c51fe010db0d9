/** Keeps the engine's tables small: finished turns are working storage, what happened is on Concord's own rows. */
import { DBOS } from '@dbos-inc/dbos-sdk'
import type { Db } from '#store'
import { openWatch, type Watch } from './watch.ts'

export type RetentionOptions = {
  readonly keepMs: number
  readonly everyMs: number
  readonly batchMax?: number
  readonly onError: (error: unknown) => void
}

const LOCK = 'concord.runtime.retention'

/** Deletes at most one batch; the number of turns deleted. */
export async function deleteFinishedTurns(keepMs: number, batchMax: number): Promise<number> {
  const old = await DBOS.listWorkflows({
    completedBefore: new Date(Date.now() - keepMs).toISOString(),
    status: ['SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'],
    limit: batchMax,
    loadInput: false,
    loadOutput: false,
  })
  if (old.length > 0) await DBOS.deleteWorkflows(old.map(({ workflowID }) => workflowID))
  return old.length
}

/** One process at a time; a batch at a time, so that no transaction gets long. */
export function openRetention(db: Db, { keepMs, everyMs, batchMax = 500, onError }: RetentionOptions): Watch {
  return openWatch(
    everyMs,
    async () => {
      const client = await db.connect('concord-runtime-retention')
      try {
        const { rows } = await client.query<{ won: boolean }>('select pg_try_advisory_lock(hashtext($1)) as won', [
          LOCK,
        ])
        if (rows[0]?.won) while ((await deleteFinishedTurns(keepMs, batchMax)) === batchMax);
      } finally {
        await client.end()
      }
    },
    onError,
  )
}
