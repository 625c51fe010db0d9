/** The events that may move into the archive: finding them in one workspace, and deleting exactly those that a verified file holds. */
import { listCommandsOfHeldArtifacts } from '#domains/artifacts'
import { listCommandsOfHeldSubjects } from '#domains/memory'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { appendEvents, failpoint, type Sql, statement, type VerifiedArchive } from '#store'
import type { Rows } from '#store/rows'
import { commandLog } from '../events.ts'
import type { HistoryDeps } from './history-archive.ts'

export type ScannedEvent = Pick<Rows['concord.domain_events'], 'event_id' | 'command_id' | 'xid' | 'seq'> & {
  /** `history_archived` events count as old: they stay, and do not end the scan. */
  readonly is_old: boolean
  readonly is_due: boolean
  /** The whole row as JSON. Null if the event stays, or in a dry run. */
  readonly line: string | null
  readonly bytes: number | null
}

const ofPurpose = (purpose: string) =>
  `(select * from concord.domain_events where workspace_id = $1 and purpose = '${purpose}' and seq > $2::bigint order by seq limit $4)`

/**
 * $1 workspace, $2 after this number, $3 what ended before this time, $4 page size, $5 with their lines.
 * A line is the `jsonb` text of the row: the same row gives the same text, and numbers and times keep every digit.
 * Events stay if readers of the feed cannot see them yet, if the workspace has seals and they are not sealed, or if they report an
 * archive. Merging three lists, each read by one index, is cheap; one condition over all of them would sort the workspace.
 */
const scanEvents = statement<ScannedEvent>(
  'history_scan',
  `with page as (
  select * from (${['event', 'audit', 'agent_step'].map(ofPurpose).join(' union all ')}) as u order by seq limit $4
), judged as (
  select p.event_id, p.created_at < $3 or p.event_type = 'history_archived' as is_old, p.created_at < $3
    and p.event_type <> 'history_archived' and p.xid < pg_snapshot_xmin(pg_current_snapshot())
    and coalesce(p.xid < (select max(s.xid_to) from concord.domain_event_seals as s where s.workspace_id = $1), true)
    and case when p.command_id is not null then c.completed_at < $3
      when p.agent_run_id is not null then a.completed_at < $3
      when p.swarm_run_id is not null then w.completed_at < $3
      else true end as is_due
  from page as p
  left join concord.commands as c on c.workspace_id = p.workspace_id and c.command_id = p.command_id
  left join concord.agent_runs as a on a.workspace_id = p.workspace_id and a.agent_run_id = p.agent_run_id
  left join concord.swarm_runs as w on w.workspace_id = p.workspace_id and w.swarm_run_id = p.swarm_run_id
), lines as (
  select p.event_id, p.command_id, p.xid, p.seq, j.is_old, coalesce(j.is_due, false) as is_due,
    case when j.is_due then to_jsonb(p)::text end as line
  from page as p join judged as j on j.event_id = p.event_id
)
select event_id, command_id, xid::text as xid, seq::text as seq, is_old, is_due,
  case when $5::boolean then line end as line, octet_length(line) as bytes
from lines order by lines.seq`,
)

type Scan = {
  readonly workspaceId: string
  readonly endedBefore: Date
  readonly afterSeq: string
  readonly limit: number
  readonly withLines: boolean
}

/** Reads one page of events of a workspace, oldest first, and picks those that are due. A hold on their commands keeps the others. */
export async function scanHistory(sql: Sql, scan: Scan) {
  const { workspaceId, endedBefore, afterSeq, limit, withLines } = scan
  const rows = await sql.run(scanEvents, [workspaceId, afterSeq, endedBefore, limit, withLines])
  const candidates = rows.filter(({ is_due }) => is_due)
  const held = await listHeld(sql, workspaceId, commandIdsOf(candidates))
  const due = candidates.filter(({ command_id }) => command_id === null || !held.has(command_id))
  return {
    due,
    held: candidates.length - due.length,
    lastSeq: rows.at(-1)?.seq ?? afterSeq,
    // Times grow with the numbers, up to the difference of clocks: after a page without old events none is old. The next run finds the rest.
    isLast: rows.length < limit || !rows.some(({ is_old }) => is_old),
  }
}

function commandIdsOf(events: readonly { readonly command_id: string | null }[]): readonly string[] {
  return [...new Set(events.flatMap(({ command_id }) => command_id ?? []))].toSorted()
}

/** Those of the given commands that a hold names. */
async function listHeld(sql: Sql, workspaceId: string, commandIds: readonly string[]): Promise<ReadonlySet<string>> {
  if (commandIds.length === 0) return new Set()
  return new Set([
    ...(await listCommandsOfHeldArtifacts(sql, workspaceId, commandIds)),
    ...(await listCommandsOfHeldSubjects(sql, workspaceId, commandIds)),
  ])
}

/** Jumps from index entry to index entry: one step per workspace, regardless of how many events it has. */
export const listWorkspacesWithHistory = statement<{ workspace_id: string }>(
  'history_list_workspaces',
  `with recursive found as (
  (select workspace_id from concord.domain_events order by workspace_id limit 1)
  union all
  select next.workspace_id from found cross join lateral
    (select e.workspace_id from concord.domain_events as e where e.workspace_id > found.workspace_id order by e.workspace_id limit 1) as next
)
select workspace_id from found`,
)

/** Locked until the commit: a retry of one of these commands waits, and then finds its history archived. */
const lockEnded = `select c.command_id from concord.commands as c
where c.workspace_id = $1 and c.command_id = any($2::uuid[]) and c.completed_at < $3 order by c.command_id for share`

/** Hashes the deleted rows in the format of the file: the database itself proves that the file holds exactly these rows. */
const deleteEvents = `with gone as (
  delete from concord.domain_events where workspace_id = $1 and event_id = any($2::uuid[]) returning *
)
select count(*)::integer as count,
  encode(sha256(convert_to(string_agg(to_jsonb(gone)::text || E'\\n', '' order by gone.xid, gone.seq), 'UTF8')), 'hex') as sha256
from gone`

const insertArchive = `insert into concord.history_archives (history_archive_id, workspace_id, file, content_hash, event_count, command_ids,
  first_xid, first_seq, last_xid, last_seq, ended_before, archived_at)
values ($1, $2, $3, decode($4, 'hex'), $5, $6, $7::xid8, $8, $9::xid8, $10, $11, $12)`

/**
 * Deletes the events of a verified file, inserts the row of the file and appends the audit event in one transaction (C21). Returns false
 * and changes nothing if an event is missing or differs, if its command runs again, or if a hold names it.
 */
export async function deleteArchived(
  { db, now, newId }: HistoryDeps,
  { manifest, events }: VerifiedArchive,
  traceId: string,
): Promise<boolean> {
  const { history_archive_id, workspace_id, file, sha256, event_count, ended_before, first, last } = manifest
  const commandIds = commandIdsOf(events)
  const changed = refuse('commands.command.moved', 'A command has changed since its file was written.')
  const deleted = await db.transaction(async (tx): Promise<Decision<undefined>> => {
    const ended = await tx.query(lockEnded, [workspace_id, commandIds, new Date(ended_before)])
    if (ended.length !== commandIds.length) return changed
    // Checked again: a killed run is finished hours later, and a hold may have been placed since.
    if ((await listHeld(tx, workspace_id, commandIds)).size > 0) return changed
    const ids = events.map(({ event_id }) => event_id)
    const [gone] = await tx.query<{ count: number; sha256: string }>(deleteEvents, [workspace_id, ids])
    if (gone?.count !== event_count || gone.sha256 !== sha256) return changed
    const at = now()
    const content = [sha256, event_count, commandIds, first.xid, first.seq, last.xid, last.seq]
    await tx.query(insertArchive, [history_archive_id, workspace_id, file, ...content, new Date(ended_before), at])
    const counts = { event_count, command_count: commandIds.length }
    const event = {
      eventId: newId(),
      type: 'history_archived' as const,
      payload: { history_archive_id, file, sha256, ...counts, first, last, ended_before },
      actor: 'system',
      actorKind: 'system',
      traceId,
      at,
      links: { workspace_id },
    }
    await appendEvents(tx, commandLog, [event])
    await failpoint('history.deleted')
    return accept(undefined)
  }, `begin; set local concord.retention = 'on'`)
  if (deleted.ok) await failpoint('history.committed')
  return deleted.ok
}
