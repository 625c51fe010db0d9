/** What commands did that stands, with the effects that undo theirs. */
import { type Sql, statement } from '#store'
import type { StoredEffect } from './command-table.ts'
import { effectsThatStand } from './standing.ts'

type StandingEffect = StoredEffect & { readonly command_id: string }

/** $1 workspace, $2 commands. With the effects that undo theirs, also those of other commands. */
const listEffects = statement<StandingEffect>(
  'commands.list_effects_and_undos',
  `select e.* from concord.domain_effects as e where e.workspace_id = $1::uuid and e.command_id = any($2::uuid[])
union
select u.* from concord.domain_effects as e join concord.domain_effects as u on u.compensates_effect_id = e.domain_effect_id and u.workspace_id = e.workspace_id
where e.workspace_id = $1::uuid and e.command_id = any($2::uuid[])`,
)

/** What these commands did that stands, or may stand. */
export async function listStanding(
  sql: Sql,
  workspaceId: string,
  commandIds: readonly string[],
): Promise<readonly StandingEffect[]> {
  return commandIds.length === 0 ? [] : effectsThatStand(await sql.run(listEffects, [workspaceId, commandIds]))
}
