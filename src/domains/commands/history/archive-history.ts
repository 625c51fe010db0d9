/**
 * Moves the events of what ended long ago into files, part by part. Each part is written, flushed and read back before one transaction
 * deletes its events. The next run finishes one that was killed; two runs at once are refused.
 */
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, refuse } from '#kernel/refusal'
import {
  archiveFileOf,
  type Db,
  failpoint,
  listArchiveFolder,
  removeLeftovers,
  sqlStateOf,
  verifyArchive,
  writeArchive,
} from '#store'
import { deleteArchived, listWorkspacesWithHistory, type ScannedEvent, scanHistory } from './due-events.ts'
import { type HistoryDeps, listArchives } from './history-archive.ts'

export type ArchiveHistory = {
  readonly endedBefore: Date
  readonly traceId: string
  /** Only counts. */
  readonly isDryRun?: boolean
  readonly signal?: AbortSignal
  readonly onProgress?: (soFar: ArchivedHistory) => void
  readonly limits?: Partial<typeof DEFAULT_LIMITS>
  /** How long to wait for another run: longer than the server needs to detect that a killed run has ended. */
  readonly waitMs?: number
}

type ArchivedFile = { readonly workspaceId: string; readonly file: string; readonly events: number }

export type ArchivedHistory = {
  readonly events: number
  readonly bytes: number
  readonly files: readonly ArchivedFile[]
  /** Old enough, but kept because a hold names their commands. */
  readonly held: number
  /** Files of a killed run that this run finished. */
  readonly finished: number
  /** Events that stay because their commands changed in the meantime. */
  readonly passedOver: number
}

/**
 * The transaction of a part delays the feed: 0.15 to 0.3 s for 10,000 events, on two busy cores. `bytes` and `page` bound the memory of
 * a run, since single events may be large.
 */
const DEFAULT_LIMITS = { events: 10_000, bytes: 16 * 1_048_576, page: 500 }

/** "history" in ASCII; any number that no other advisory lock uses. */
const LOCK = '29389342173524601'

const LOCK_WAIT_MS = 10_000
const LOCK_NOT_AVAILABLE = '55P03'

export async function archiveHistory(deps: HistoryDeps, run: ArchiveHistory): Promise<Decision<ArchivedHistory>> {
  if (!(await isOwner(deps.db)))
    return refuse('history.owner.needed', 'Only the login that owns the tables may delete events.')
  // A separate session ends with the process, and releases the lock.
  const session = await deps.db.connect('concord history')
  try {
    await session.query(`set lock_timeout = ${Math.ceil(run.waitMs ?? LOCK_WAIT_MS)}`)
    await session.query('select pg_advisory_lock($1)', [LOCK])
    const archived = await archiveAll(deps, run)
    await session.query('select pg_advisory_unlock($1)', [LOCK])
    return archived
  } catch (error) {
    if (sqlStateOf(error) !== LOCK_NOT_AVAILABLE) throw error
    return refuse('history.busy', 'Another run is moving the history right now.')
  } finally {
    await session.end()
  }
}

async function isOwner(db: Db): Promise<boolean> {
  const [row] = await db.query<{ is_owner: boolean }>(
    `select pg_has_role(current_user, relowner, 'USAGE') as is_owner from pg_class where oid = 'concord.journal'::regclass`,
  )
  return row?.is_owner === true
}

async function archiveAll(deps: HistoryDeps, run: ArchiveHistory): Promise<Decision<ArchivedHistory>> {
  const finished = run.isDryRun ? accept([]) : await finishInterrupted(deps, run.traceId)
  if (!finished.ok) return finished
  const files = finished.value
  const events = files.reduce((sum, file) => sum + file.events, 0)
  let total: ArchivedHistory = { events, bytes: 0, files, held: 0, finished: files.length, passedOver: 0 }
  for (const { workspace_id: workspaceId } of await deps.db.run(listWorkspacesWithHistory)) {
    const archived = await archiveWorkspace(deps, run, workspaceId, total)
    if (!archived.ok) return archived
    total = archived.value
    if (run.signal?.aborted) break
  }
  return accept(total)
}

/**
 * Finishes a killed run: deletes the events of every complete file without a row, and removes incomplete files. A complete file that no
 * longer matches stays: `verifyHistory` lists it, and a person decides.
 */
async function finishInterrupted(deps: HistoryDeps, traceId: string): Promise<Decision<readonly ArchivedFile[]>> {
  let files: readonly string[]
  try {
    const found = await listArchiveFolder(deps.folder)
    await removeLeftovers(deps.folder, found)
    files = found.files
  } catch (error) {
    return refuseFolder(error, deps.folder)
  }
  const known = new Set((await listArchives(deps.db)).map(({ file }) => file))
  const finished: ArchivedFile[] = []
  for (const file of files) {
    if (known.has(file)) continue
    const verified = await verifyArchive(deps.folder, file)
    if (!verified.ok || !(await deleteArchived(deps, verified.value, traceId))) continue
    const { workspace_id: workspaceId, event_count: events } = verified.value.manifest
    finished.push({ workspaceId, file, events })
  }
  return accept(finished)
}

async function archiveWorkspace(
  deps: HistoryDeps,
  run: ArchiveHistory,
  workspaceId: string,
  before: ArchivedHistory,
): Promise<Decision<ArchivedHistory>> {
  const { endedBefore, isDryRun = false } = run
  const limits = { ...DEFAULT_LIMITS, ...run.limits }
  let total = before
  let part: ScannedEvent[] = []
  let bytes = 0
  for (let after = { xid: '0', seq: '0' }, isLast = false; !isLast && !run.signal?.aborted; ) {
    const scan = { workspaceId, endedBefore, after, limit: limits.page, withLines: !isDryRun }
    const page = await scanHistory(deps.db, scan)
    ;({ last: after, isLast } = page)
    part.push(...page.due)
    bytes += page.due.reduce((sum, event) => sum + (event.bytes ?? 0), 0)
    total = { ...total, held: total.held + page.held }
    if (part.length === 0 || (!isLast && part.length < limits.events && bytes < limits.bytes)) continue
    const file = isDryRun ? accept(undefined) : await archivePart(deps, run, workspaceId, part)
    if (!file.ok) return file
    const events = part.length
    total =
      file.value === null
        ? { ...total, passedOver: total.passedOver + events }
        : { ...total, events: total.events + events, bytes: total.bytes + bytes }
    if (file.value) total = { ...total, files: [...total.files, { workspaceId, file: file.value, events }] }
    run.onProgress?.(total)
    part = []
    bytes = 0
  }
  return accept(total)
}

/** Returns the file, or null if the events have changed since they were read. */
async function archivePart(
  deps: HistoryDeps,
  { endedBefore, traceId }: ArchiveHistory,
  workspaceId: string,
  part: readonly ScannedEvent[],
): Promise<Decision<string | null>> {
  const [first, last] = [part[0], part.at(-1)]
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
    const lines = part.map(({ line }) => line ?? '')
    await writeArchive(deps.folder, draft, lines)
  } catch (error) {
    return refuseFolder(error, deps.folder)
  }
  const verified = await verifyArchive(deps.folder, file)
  if (!verified.ok) return verified
  await failpoint('history.verified')
  return accept((await deleteArchived(deps, verified.value, traceId)) ? file : null)
}

/** Rethrows anything that is not an error of the file system. */
function refuseFolder(error: unknown, folder: string) {
  const { code, message } = error as NodeJS.ErrnoException
  if (code === undefined) throw error
  return refuse('history.file.unwritable', `The archive cannot be written: ${message}.`, { path: folder })
}
