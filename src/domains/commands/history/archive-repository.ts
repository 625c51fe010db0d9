/** Rows of `history_archives`: which file holds what. Written only together with the deletion of the events (C21). */
import { type Db, type Sql, scoped, statement, type Tx } from '#store'

export type StoredArchive = {
  readonly history_archive_id: string
  readonly workspace_id: string
  readonly file: string
  readonly sha256: string
  readonly event_count: number
  readonly ended_before: Date
  readonly archived_at: Date
}

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

/** For one request, behind both walls: the files of a workspace, or those with events of one of its commands. */
export async function countArchiveFiles(db: Db, workspaceId: string, commandId?: string): Promise<number> {
  const text = `select count(*)::integer as files from concord.history_archives as h
where h.workspace_id = $1 and ($2::uuid is null or h.command_ids @> array[$2::uuid])`
  const [row] = await scoped(db, workspaceId).read((tx) =>
    tx.query<{ files: number }>(text, [workspaceId, commandId ?? null]),
  )
  return row?.files ?? 0
}

/** The files with events of a command, oldest first; none: its whole history is in the table. */
const ofCommandSql = statement<StoredArchive>(
  'history_archives_of_command',
  `select ${columns} from concord.history_archives as h
where h.workspace_id = $1 and h.command_ids @> array[$2::uuid] order by h.last_xid, h.last_seq`,
)

/** For one request, behind both walls. */
export function listArchivesOf(db: Db, workspaceId: string, commandId: string): Promise<readonly StoredArchive[]> {
  return scoped(db, workspaceId).read((tx) => tx.run(ofCommandSql, [workspaceId, commandId]))
}

/** For whoever examines a house, in a transaction of his. */
export function listArchivesWith(sql: Sql, workspaceId: string, commandId: string): Promise<readonly StoredArchive[]> {
  return sql.run(ofCommandSql, [workspaceId, commandId])
}

export type NewArchive = Omit<StoredArchive, 'event_count'> & {
  readonly event_count: number
  readonly command_ids: readonly string[]
  readonly first: { readonly xid: string; readonly seq: string }
  readonly last: { readonly xid: string; readonly seq: string }
}

export async function insertArchive(tx: Tx, archive: NewArchive): Promise<void> {
  const { first, last } = archive
  await tx.query(
    `insert into concord.history_archives (history_archive_id, workspace_id, file, content_hash, event_count, command_ids,
  first_xid, first_seq, last_xid, last_seq, ended_before, archived_at)
values ($1, $2, $3, decode($4, 'hex'), $5, $6, $7::xid8, $8, $9::xid8, $10, $11, $12)`,
    [
      archive.history_archive_id,
      archive.workspace_id,
      archive.file,
      archive.sha256,
      archive.event_count,
      archive.command_ids,
      first.xid,
      first.seq,
      last.xid,
      last.seq,
      archive.ended_before,
      archive.archived_at,
    ],
  )
}
