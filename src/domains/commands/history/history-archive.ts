/** The archive of the history: the rows of `history_archives`, reading a command back from its files, and verifying the files. */
import type { Clock, NewId } from '#kernel/clock'
import { accept, type Decision, refuse } from '#kernel/refusal'
import {
  type ArchivedEvent,
  type Db,
  listArchiveFolder,
  readArchive,
  refuseArchiveFile,
  type Sql,
  scoped,
  statement,
  verifyArchive,
} from '#store'
import type { Rows } from '#store/rows'

export type HistoryDeps = {
  /** Archiving needs the login that owns the tables: no other login may delete events. */
  readonly db: Db
  readonly now: Clock
  readonly newId: NewId
  readonly folder: string
}

type ReadDeps = Pick<HistoryDeps, 'db' | 'folder'>

export type StoredArchive = Pick<
  Rows['concord.history_archives'],
  'history_archive_id' | 'workspace_id' | 'file' | 'event_count' | 'ended_before' | 'archived_at'
> & { readonly sha256: string }

const columns = `h.history_archive_id, h.workspace_id, h.file, encode(h.content_hash, 'hex') as sha256, h.event_count,
  h.ended_before, h.archived_at`

export function listArchives(sql: Sql): Promise<readonly StoredArchive[]> {
  return sql.query<StoredArchive>(
    `select ${columns} from concord.history_archives as h order by h.workspace_id, h.archived_at, h.history_archive_id`,
  )
}

export async function countArchived(sql: Sql): Promise<{ readonly files: number; readonly events: number }> {
  const [row] = await sql.query<{ files: number; events: number }>(
    'select count(*)::integer as files, coalesce(sum(event_count), 0)::float8 as events from concord.history_archives',
  )
  return row ?? { files: 0, events: 0 }
}

/** The number of files of a workspace, or of those with events of one of its commands. Runs in the scope of the workspace. */
export async function countArchiveFiles(db: Db, workspaceId: string, commandId?: string): Promise<number> {
  const text = `select count(*)::integer as files from concord.history_archives as h
where h.workspace_id = $1 and ($2::uuid is null or h.command_ids @> array[$2::uuid])`
  const [row] = await scoped(db, workspaceId).read((tx) =>
    tx.query<{ files: number }>(text, [workspaceId, commandId ?? null]),
  )
  return row?.files ?? 0
}

const ofCommand = statement<StoredArchive>(
  'history_archives_of_command',
  `select ${columns} from concord.history_archives as h
where h.workspace_id = $1 and h.command_ids @> array[$2::uuid] order by h.last_xid, h.last_seq`,
)

/** The files with events of a command, oldest first. Runs in the scope of the workspace. */
export function listArchivesOf(db: Db, workspaceId: string, commandId: string): Promise<readonly StoredArchive[]> {
  return scoped(db, workspaceId).read((tx) => tx.run(ofCommand, [workspaceId, commandId]))
}

type HistoryEvent = Pick<
  ArchivedEvent,
  'event_id' | 'command_id' | 'event_type' | 'purpose' | 'payload' | 'actor' | 'trace_id' | 'seq'
> & {
  readonly created_at: Date
  /** Null: it is in the table. */
  readonly file: string | null
}

type CommandHistory = { readonly archives: readonly StoredArchive[]; readonly events: readonly HistoryEvent[] }

const eventsOf = `select e.event_id, e.command_id, e.event_type, e.purpose, e.payload, e.actor, e.trace_id, e.created_at,
  e.seq::float8 as seq, null as file
from concord.domain_events as e where e.workspace_id = $1 and e.command_id = $2`

/** All events of one command from the archive and the table, in order. The operator names no workspace: the role has to see all rows. */
export async function readHistory({ db, folder }: ReadDeps, commandId: string): Promise<Decision<CommandHistory>> {
  const [command] = await db.query<{ workspace_id: string }>(
    'select workspace_id from concord.commands where command_id = $1',
    [commandId],
  )
  if (!command) return refuse('commands.command.not_found', 'There is no such command.')
  const inTable = await db.query<HistoryEvent>(eventsOf, [command.workspace_id, commandId])
  const archives = await db.run(ofCommand, [command.workspace_id, commandId])
  const archived: HistoryEvent[] = []
  for (const { file } of archives) {
    try {
      for await (const event of readArchive(folder, file)) {
        if (event.command_id === commandId) archived.push({ ...event, created_at: new Date(event.created_at), file })
      }
    } catch (error) {
      return refuseArchiveFile(error, folder, file)
    }
  }
  // Events that were archived between the two reads come from both; each is listed once.
  const byId = new Map([...archived, ...inTable].map((event) => [event.event_id, event]))
  return accept({ archives, events: [...byId.values()].toSorted((a, b) => a.seq - b.seq) })
}

export type ArchiveFinding = {
  readonly file: string
  readonly status: 'whole' | 'missing' | 'damaged' | 'surplus'
  readonly events: number | null
  /** The problem and its fix. */
  readonly found: string | null
}

type Verification = { readonly signal?: AbortSignal; readonly onProgress?: (looked: number, of: number) => void }

/** Compares every archived file with its manifest and its row, and lists files without a row. Changes nothing. */
export async function verifyHistory(
  { db, folder }: ReadDeps,
  { signal, onProgress }: Verification = {},
): Promise<readonly ArchiveFinding[]> {
  const archives = await listArchives(db)
  const findings: ArchiveFinding[] = []
  for (const archive of archives) {
    if (signal?.aborted) return findings
    const checked = await checkArchive(folder, archive)
    const found = checked.ok ? null : checked.reason
    const status = checked.ok ? 'whole' : checked.code === 'history.file.missing' ? 'missing' : 'damaged'
    findings.push({ file: archive.file, status, events: archive.event_count, found })
    onProgress?.(findings.length, archives.length)
  }
  const known = new Set(archives.map(({ file }) => file))
  const { files } = await listArchiveFolder(folder)
  const surplus = files.filter((file) => !known.has(file))
  const found = 'No row names it: a run was interrupted before its deletion, or it belongs to another database.'
  return [...findings, ...surplus.map((file) => ({ file, status: 'surplus' as const, events: null, found }))]
}

/** The row decides: a file that was replaced together with its manifest does not match it. */
export async function checkArchive(
  folder: string,
  { file, sha256, event_count }: StoredArchive,
): Promise<Decision<undefined>> {
  const verified = await verifyArchive(folder, file)
  if (!verified.ok) return verified
  const { manifest } = verified.value
  if (sha256 === manifest.sha256 && event_count === manifest.event_count) return accept(undefined)
  return refuse('history.file.damaged', `${file} is not the file that was written.`, { path: file })
}
