/** Commands that made something which must be kept: their history stays where it is, too. */
import { type Sql, statement } from '#store'

const listHeldSql = statement<{ command_id: string }>(
  'artifacts_list_held_commands',
  `select distinct t.command_id from concord.artifacts as t
where t.workspace_id = $1 and t.command_id = any($2::uuid[]) and t.hold_reason is not null`,
)

/** Those of the given commands whose artifacts are held. */
export async function listCommandsOfHeldArtifacts(
  sql: Sql,
  workspaceId: string,
  commandIds: readonly string[],
): Promise<readonly string[]> {
  const rows = await sql.run(listHeldSql, [workspaceId, commandIds])
  return rows.map(({ command_id }) => command_id)
}
