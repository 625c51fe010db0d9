/** Walks the log of one workspace from its oldest event on, and says of each whether its time has come. */
import { Buffer } from 'node:buffer'
import { listCommandsOfHeldArtifacts } from '#domains/artifacts'
import { listCommandsOfHeldSubjects } from '#domains/memory'
import { type Sql, statement } from '#store'

export type ScannedEvent = {
  readonly event_id: string
  readonly command_id: string | null
  readonly xid: string
  readonly seq: string
  /** The word about an earlier archive counts as old: it stays where it is, and says nothing about what follows. */
  readonly is_old: boolean
  readonly is_due: boolean
  /** The whole row as JSON; null when it stays, or when only counting was asked for. */
  readonly line: string | null
  /** Of the line, when only counting was asked for. */
  readonly bytes: number | null
}

export function bytesOf({ line, bytes }: Pick<ScannedEvent, 'line' | 'bytes'>): number {
  return line === null ? (bytes ?? 0) : Buffer.byteLength(line)
}

const ofPurpose = (purpose: string) =>
  `(select * from concord.domain_events where workspace_id = $1 and purpose = '${purpose}' and seq > $2::bigint order by seq limit $4)`

/**
 * $1 workspace, $2 after this number, $3 what ended before this time, $4 how many to look at, $5 with their lines.
 * A line is the text that Postgres makes of the row as `jsonb`: the same row gives the same text, numbers and times keep every digit.
 * What readers of the feed cannot see yet stays, what is not sealed yet stays once a workspace has seals, and so does the word about
 * earlier archives. Of three lists by one index each the merge is cheap; one condition over all would sort the workspace.
 */
const scanSql = statement<ScannedEvent>(
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
), told as (
  select p.event_id, p.command_id, p.xid, p.seq, j.is_old, coalesce(j.is_due, false) as is_due,
    case when j.is_due then to_jsonb(p)::text end as line
  from page as p join judged as j on j.event_id = p.event_id
)
select event_id, command_id, xid::text as xid, seq::text as seq, is_old, is_due,
  case when $5::boolean then line end as line, case when not $5::boolean then octet_length(line) end as bytes
from told order by told.seq`,
)

export type ScannedPage = {
  readonly due: readonly ScannedEvent[]
  /** Old enough, and kept since something names its command. */
  readonly held: number
  readonly lastSeq: string
  /** Nothing behind it is old: times grow with the numbers, up to the difference of clocks. What is missed comes next time. */
  readonly isLast: boolean
}

export type Scan = {
  readonly workspaceId: string
  readonly endedBefore: Date
  readonly afterSeq: string
  readonly limit: number
  readonly withLines: boolean
}

export async function scanHistory(sql: Sql, scan: Scan): Promise<ScannedPage> {
  const { workspaceId, endedBefore, afterSeq, limit, withLines } = scan
  const rows = await sql.run(scanSql, [workspaceId, afterSeq, endedBefore, limit, withLines])
  const candidates = rows.filter(({ is_due }) => is_due)
  const held = await listHeld(sql, workspaceId, commandIdsOf(candidates))
  const due = candidates.filter(({ command_id }) => command_id === null || !held.has(command_id))
  return {
    due,
    held: candidates.length - due.length,
    lastSeq: rows.at(-1)?.seq ?? afterSeq,
    isLast: rows.length < limit || !rows.some(({ is_old }) => is_old),
  }
}

export function commandIdsOf(events: readonly { readonly command_id: string | null }[]): readonly string[] {
  return [...new Set(events.flatMap(({ command_id }) => command_id ?? []))].toSorted()
}

/** Those of the given commands that a hold names. */
export async function listHeld(
  sql: Sql,
  workspaceId: string,
  commandIds: readonly string[],
): Promise<ReadonlySet<string>> {
  if (commandIds.length === 0) return new Set()
  return new Set([
    ...(await listCommandsOfHeldArtifacts(sql, workspaceId, commandIds)),
    ...(await listCommandsOfHeldSubjects(sql, workspaceId, commandIds)),
  ])
}

/** From index entry to index entry: as many steps as workspaces, however many events they have. */
const listWorkspacesSql = statement<{ workspace_id: string }>(
  'history_list_workspaces',
  `with recursive found as (
  (select workspace_id from concord.domain_events order by workspace_id limit 1)
  union all
  select next.workspace_id from found cross join lateral
    (select e.workspace_id from concord.domain_events as e where e.workspace_id > found.workspace_id order by e.workspace_id limit 1) as next
)
select workspace_id from found`,
)

export async function listWorkspacesWithHistory(sql: Sql): Promise<readonly string[]> {
  return (await sql.run(listWorkspacesSql)).map(({ workspace_id }) => workspace_id)
}
