/**
 * Moves the events of what ended long ago out of the table into files: part by part, each written, flushed and read back before
 * one transaction deletes what it holds. A run that was killed is finished by the next; two runs at once are refused.
 */
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { archiveFileOf, type Db, failpoint, sqlStateOf, verifyArchive, writeArchive } from '#store'
import { finishInterrupted } from './finish-interrupted.ts'
import { refuseFolder } from './refuse-folder.ts'
import { deleteArchived, refuseStranger } from './delete-archived.ts'
import { bytesOf, listWorkspacesWithHistory, type ScannedEvent, scanHistory } from './scan-history.ts'
import type { HistoryDeps } from './deps.ts'

export type ArchiveHistory = {
  readonly endedBefore: Date
  readonly traceId: string
  /** Counts, and writes and deletes nothing. */
  readonly isDryRun?: boolean
  readonly signal?: AbortSignal
  readonly onProgress?: (soFar: ArchivedHistory) => void
  readonly limits?: Partial<PartLimits>
  /** How long to wait for a run that is under way: longer than the server needs to notice that a killed one is gone. */
  readonly waitMs?: number
}

type PartLimits = { readonly events: number; readonly bytes: number; readonly page: number }

export type ArchivedFile = { readonly workspaceId: string; readonly file: string; readonly events: number }

export type ArchivedHistory = {
  readonly events: number
  readonly bytes: number
  readonly files: readonly ArchivedFile[]
  /** Old enough, and kept since a hold names their commands. */
  readonly held: number
  /** Written by a run that was killed before its deletion, and finished by this one. */
  readonly finished: number
  /** Their commands came back to life, or somebody else was faster: they stay. */
  readonly passedOver: number
}

/**
 * The transaction of a part holds the feed back for as long as it takes: 0.15 to 0.3 s for 10,000 events, on two busy cores. The
 * bytes bound what a run has in memory, and so does the page, whose events may be large.
 */
const DEFAULT_LIMITS: PartLimits = { events: 10_000, bytes: 16 * 1_048_576, page: 500 }

/** "history" in ASCII: any number that nobody else takes. */
const LOCK = '29389342173524601'

const LOCK_WAIT_MS = 10_000
const LOCK_NOT_AVAILABLE = '55P03'

const nothing: ArchivedHistory = { events: 0, bytes: 0, files: [], held: 0, finished: 0, passedOver: 0 }

export async function archiveHistory(deps: HistoryDeps, run: ArchiveHistory): Promise<Decision<ArchivedHistory>> {
  const owner = await isOwner(deps.db)
  if (!owner) return refuseStranger()
  // A session of its own: it ends with the process, and the lock with it.
  const session = await deps.db.connect('concord history')
  try {
    await session.query(`set lock_timeout = ${Math.ceil(run.waitMs ?? LOCK_WAIT_MS)}`)
    await session.query('select pg_advisory_lock($1)', [LOCK])
    const moved = await moveAll(deps, run)
    await session.query('select pg_advisory_unlock($1)', [LOCK])
    return moved
  } catch (error) {
    if (sqlStateOf(error) !== LOCK_NOT_AVAILABLE) throw error
    return refuse('history.busy', 'another run is moving the history right now', { hint: 'wait until it is done' })
  } finally {
    await session.end()
  }
}

async function isOwner(db: Db): Promise<boolean> {
  const [row] = await db.query<{ is_owner: boolean }>(
    `select pg_has_role(current_user, relowner, 'USAGE') as is_owner from pg_class where oid = 'concord.domain_events'::regclass`,
  )
  return row?.is_owner === true
}

async function moveAll(deps: HistoryDeps, run: ArchiveHistory): Promise<Decision<ArchivedHistory>> {
  let total = nothing
  if (run.isDryRun !== true) {
    const finished = await finishInterrupted(deps, run.traceId)
    if (!finished.ok) return finished
    const files = finished.value
    total = { ...nothing, finished: files.length, files, events: files.reduce((sum, { events }) => sum + events, 0) }
  }
  for (const workspaceId of await listWorkspacesWithHistory(deps.db)) {
    const moved = await moveWorkspace(deps, run, workspaceId, total)
    if (!moved.ok) return moved
    total = moved.value
    if (run.signal?.aborted) break
  }
  return accept(total)
}

async function moveWorkspace(
  deps: HistoryDeps,
  run: ArchiveHistory,
  workspaceId: string,
  before: ArchivedHistory,
): Promise<Decision<ArchivedHistory>> {
  const limits = { ...DEFAULT_LIMITS, ...run.limits }
  const withLines = run.isDryRun !== true
  let total = before
  let part: ScannedEvent[] = []
  let bytes = 0
  for (let afterSeq = '0', isLast = false; !isLast && !run.signal?.aborted; ) {
    const { endedBefore } = run
    const page = await scanHistory(deps.db, { workspaceId, endedBefore, afterSeq, limit: limits.page, withLines })
    ;({ lastSeq: afterSeq, isLast } = page)
    part.push(...page.due)
    bytes += page.due.reduce((sum, event) => sum + bytesOf(event), 0)
    total = { ...total, held: total.held + page.held }
    if (part.length === 0 || (!isLast && part.length < limits.events && bytes < limits.bytes)) continue
    const moved = withLines ? await movePart(deps, run, workspaceId, part) : accept(undefined)
    if (!moved.ok) return moved
    total =
      moved.value === false
        ? { ...total, passedOver: total.passedOver + part.length }
        : { ...total, events: total.events + part.length, bytes: total.bytes + bytes }
    if (moved.value) total = { ...total, files: [...total.files, moved.value] }
    run.onProgress?.(total)
    part = []
    bytes = 0
  }
  return accept(total)
}

/** False: what was read is no longer so, and nothing was deleted. */
async function movePart(
  deps: HistoryDeps,
  { endedBefore, traceId }: ArchiveHistory,
  workspaceId: string,
  part: readonly ScannedEvent[],
): Promise<Decision<ArchivedFile | false>> {
  const events = part.toSorted(byPlace)
  const [first, last] = [events[0], events.at(-1)]
  if (!first || !last) throw new KernelFault('history.part.empty', 'a part has at least one event')
  const id = deps.newId()
  const file = archiveFileOf(workspaceId, id)
  const draft = {
    history_archive_id: id,
    workspace_id: workspaceId,
    file,
    first: { xid: first.xid, seq: first.seq },
    last: { xid: last.xid, seq: last.seq },
    ended_before: endedBefore.toISOString(),
    written_at: deps.now().toISOString(),
  }
  try {
    const lines = events.map(({ line }) => line ?? '')
    await writeArchive(deps.folder, draft, lines)
  } catch (error) {
    return refuseFolder(error, deps.folder)
  }
  const verified = await verifyArchive(deps.folder, file)
  if (!verified.ok) return verified
  await failpoint('history.verified')
  const deleted = await deleteArchived(deps, verified.value, traceId)
  if (!deleted.ok) return deleted
  return accept(deleted.value && { workspaceId, file, events: events.length })
}

/** In the order of the feed. */
function byPlace(a: ScannedEvent, b: ScannedEvent): number {
  const [ax, bx] = [BigInt(a.xid), BigInt(b.xid)]
  if (ax !== bx) return ax < bx ? -1 : 1
  return BigInt(a.seq) < BigInt(b.seq) ? -1 : 1
}
