/** The events that may move into the archive: finding them in one workspace, and deleting exactly those that a verified file holds. */
import { listCommandsOfHeldArtifacts } from '#domains/artifacts'
import { listCommandsOfHeldSubjects } from '#domains/memory'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { appendEvents, failpoint, type FeedPosition, type Sql, statement, type VerifiedArchive } from '#store'
import type { Rows } from '#store/rows'
import { commandLog } from '../events.ts'
import type { HistoryDeps } from './history-archive.ts'

export type ScannedEvent = Pick<Rows['concord.journal'], 'command_id' | 'xid' | 'seq'> & {
  /** `history_archived` events count as old: they stay, and do not end the scan. */
  readonly is_old: boolean
  readonly is_due: boolean
  /** The whole event as JSON. Null if it stays, or in a dry run. */
  readonly line: string | null
  readonly bytes: number | null
}

/** The columns of an event; those that lead into the journal are not part of its history. */
const lineOf = (event: string) => `(to_jsonb(${event}) - 'entry_id' - 'entry_seq')::text`

/**
 * $1 workspace, $2 and $3 the place of the last row read, $4 what ended before this time, $5 how many rows of the journal, $6 with their lines.
 * A line is the `jsonb` text of an event: the same event gives the same text, and numbers and times keep every digit.
 * Events stay if readers of the feed cannot see them yet, if the workspace has seals and they are not sealed, or if they report an archive.
 * All events of one row share these facts, so a row moves as a whole.
 */
const scanEvents = statement<ScannedEvent>(
  'history_scan',
  `with page as (
  select * from concord.journal as j where j.workspace_id = $1 and (j.xid, j.seq) > ($2::xid8, $3::bigint) order by j.xid, j.seq limit $5
), judged as (
  select p.entry_id, p.created_at < $4 as is_old, p.created_at < $4 and p.xid < pg_snapshot_xmin(pg_current_snapshot())
    and coalesce(p.xid < (select max(s.xid_to) from concord.domain_event_seals as s where s.workspace_id = $1), true)
    and case when p.command_id is not null then c.completed_at < $4
      when p.agent_run_id is not null then a.completed_at < $4
      when p.swarm_run_id is not null then w.completed_at < $4
      else true end as is_due
  from page as p
  left join concord.commands as c on c.workspace_id = p.workspace_id and c.command_id = p.command_id
  left join concord.agent_runs as a on a.workspace_id = p.workspace_id and a.agent_run_id = p.agent_run_id
  left join concord.swarm_runs as w on w.workspace_id = p.workspace_id and w.swarm_run_id = p.swarm_run_id
), lines as (
  select e.command_id, e.xid, e.entry_seq, e.seq, j.is_old or e.event_type = 'history_archived' as is_old,
    coalesce(j.is_due, false) and e.event_type <> 'history_archived' as is_due, ${lineOf('e')} as line
  from judged as j join concord.domain_events as e on e.entry_id = j.entry_id
)
select command_id, xid::text as xid, seq::text as seq, is_old, is_due,
  case when $6::boolean and is_due then line end as line, case when is_due then octet_length(line) end as bytes
from lines order by lines.xid, lines.entry_seq, lines.seq`,
)

type Scan = {
  readonly workspaceId: string
  readonly endedBefore: Date
  readonly after: FeedPosition
  readonly limit: number
  readonly withLines: boolean
}

/** Reads one page of events of a workspace, oldest first, and picks those that are due. A hold on their commands keeps the others. */
export async function scanHistory(sql: Sql, scan: Scan) {
  const { workspaceId, endedBefore, after, limit, withLines } = scan
  const rows = await sql.run(scanEvents, [workspaceId, after.xid, after.seq, endedBefore, limit, withLines])
  const candidates = rows.filter(({ is_due }) => is_due)
  const held = await listHeld(sql, workspaceId, commandIdsOf(candidates))
  const due = candidates.filter(({ command_id }) => command_id === null || !held.has(command_id))
  return {
    due,
    held: candidates.length - due.length,
    last: rows.at(-1) ?? after,
    // Times grow with the numbers, up to the difference of clocks: after a page without old events none is old. The next run finds the rest.
    isLast: rows.length === 0 || !rows.some(({ is_old }) => is_old),
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
  (select workspace_id from concord.journal order by workspace_id limit 1)
  union all
  select next.workspace_id from found cross join lateral
    (select e.workspace_id from concord.journal as e where e.workspace_id > found.workspace_id order by e.workspace_id limit 1) as next
)
select workspace_id from found`,
)

/** Locked until the commit: a retry of one of these commands waits, and then finds its history archived. */
const lockEnded = `select c.command_id from concord.commands as c
where c.workspace_id = $1 and c.command_id = any($2::uuid[]) and c.completed_at < $3 order by c.command_id for share`

/**
 * $1 workspace, $2 events, $3 to $6 the places of the first and the last one. Hashes the deleted events in the format of the file: the
 * database itself proves that the file holds exactly these. `count` counts what left the journal, so no row goes with an event that stays.
 */
const deleteEvents = `with doomed as materialized (
  select * from concord.domain_events as e
  where e.workspace_id = $1 and (e.xid, e.entry_seq) >= ($3::xid8, $4::bigint) and (e.xid, e.entry_seq) <= ($5::xid8, $6::bigint)
    and e.event_id = any($2::uuid[])
), gone as (
  delete from concord.journal as j where j.workspace_id = $1 and j.entry_id in (select d.entry_id from doomed as d)
  returning json_array_length(j.events) as events
)
select (select coalesce(sum(events), 0) from gone)::integer as count,
  encode(sha256(convert_to(string_agg(${lineOf('d')} || E'\\n', '' order by d.xid, d.entry_seq, d.seq), 'UTF8')), 'hex') as sha256
from doomed as d`

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
    const range = [first.xid, first.seq, last.xid, last.seq]
    const [gone] = await tx.query<{ count: number; sha256: string }>(deleteEvents, [workspace_id, ids, ...range])
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
