/** Commands that proposed, wrote or erased a memory of somebody on whom a hold stands: their history stays where it is. */
import { type Sql, statement } from '#store'

const listHeldSql = statement<{ command_id: string }>(
  'memory_list_held_commands',
  `select distinct m.command_id from concord.memory_holds as h
join lateral (
  select r.command_id from concord.memory_records as r
  where r.workspace_id = h.workspace_id and r.subject_type = h.subject_type and r.subject_id = h.subject_id
  union all
  select c.command_id from concord.memory_candidates as c
  where c.workspace_id = h.workspace_id and c.subject_type = h.subject_type and c.subject_id = h.subject_id
  union all
  select e.command_id from concord.memory_erasures as e
  where e.workspace_id = h.workspace_id and e.subject_type = h.subject_type and e.subject_id = h.subject_id
) as m on m.command_id = any($2::uuid[])
where h.workspace_id = $1 and h.released_at is null`,
)

/** Those of the given commands that a standing hold names through their memories. */
export async function listCommandsOfHeldSubjects(
  sql: Sql,
  workspaceId: string,
  commandIds: readonly string[],
): Promise<readonly string[]> {
  const rows = await sql.run(listHeldSql, [workspaceId, commandIds])
  return rows.map(({ command_id }) => command_id)
}
