/**
 * Deletes old logs of ended runs, by age and total size, and notifications that were delivered or are dead. Rows of jobs and
 * runs are never deleted (D12); reading a pruned log is refused with the reason. The owner's loop prunes every hour.
 */
import { opendir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { accept, type Decision } from '#kernel/refusal'
import { isUuid } from '#kernel/ids'
import { findRun } from './run-repository.ts'
import { nowMs, type Scheduler } from './scheduler.ts'
import { query } from './database.ts'

export type Pruned = { readonly logs: number; readonly logBytes: number; readonly notifications: number }

/** Reads only the oldest rows: pending notifications are among the newest. */
const LOOK_ROWS = 5_000
const deleteEnded = query<never, { before: number }>(`
   delete from notifications where seq in (
     select seq from (select seq, status, ended_at from notifications order by seq limit ${LOOK_ROWS})
      where status <> 'PENDING' and ended_at < $before)`)

export async function pruneRuns(
  scheduler: Scheduler,
  runFolder: string,
  signal?: AbortSignal,
): Promise<Decision<Pruned>> {
  const { keepMs, logBytesMax } = scheduler.settings
  const beforeMs = nowMs(scheduler) - keepMs
  let notifications = 0
  for (let gone = LOOK_ROWS; gone > 0 && !signal?.aborted; ) {
    const deleted = scheduler.db.write((tx) => accept(tx.run(deleteEnded, { before: beforeMs })))
    if (!deleted.ok) return deleted
    gone = deleted.value
    notifications += gone
  }
  const ended = await listEnded(scheduler, runFolder, signal)
  if (!ended.ok) return ended
  let leftBytes = ended.value.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  let logs = 0
  let logBytes = 0
  for (const { path, endedAt, sizeBytes } of ended.value.toSorted((one, other) => one.endedAt - other.endedAt)) {
    if (signal?.aborted || (endedAt >= beforeMs && leftBytes <= logBytesMax)) break
    await rm(path, { force: true })
    leftBytes -= sizeBytes
    logBytes += sizeBytes
    logs += 1
  }
  return accept({ logs, logBytes, notifications })
}

type EndedFile = { readonly path: string; readonly endedAt: number; readonly sizeBytes: number }

/** Lists files of runs that have an outcome. Files without a known run are never deleted. */
async function listEnded(
  scheduler: Scheduler,
  runFolder: string,
  signal: AbortSignal | undefined,
): Promise<Decision<readonly EndedFile[]>> {
  const found: EndedFile[] = []
  const folder = await opendir(runFolder).catch(() => undefined)
  if (!folder) return accept(found)
  for await (const { name } of folder) {
    if (signal?.aborted) break
    const [runId = '', kind] = name.split('.')
    if (!isUuid(runId) || !(kind === 'log' || kind === 'stop' || kind === 'artifacts')) continue
    const run = scheduler.db.read((reader) => accept(findRun(reader, runId)))
    if (!run.ok) return run
    if (run.value?.status == null) continue
    const path = join(runFolder, name)
    const size = await stat(path).catch(() => undefined)
    const { finished_at, started_at } = run.value
    if (size) found.push({ path, endedAt: finished_at ?? started_at, sizeBytes: size.size })
  }
  return accept(found)
}
