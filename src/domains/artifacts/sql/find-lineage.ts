/** Everything made from these memories or by these commands, and whatever was made from that, however many steps away. */
import { statement } from '#store'
import type { StoredArtifact } from '../artifact-row.ts'

const madeFrom = (kind: string, id: string) =>
  `a.workspace_id = $1 and a.lineage @> jsonb_build_object('sources', jsonb_build_array(jsonb_build_object('kind', '${kind}', 'id', ${id})))`

/** What has been emptied before is not among it. */
const lineage = `with recursive line (artifact_id) as (
  (select a.artifact_id from unnest($2::uuid[]) as m (id) cross join lateral (
     select a.artifact_id from concord.artifacts a where ${madeFrom('memory', 'm.id::text')}) as a
   union select a.artifact_id from concord.artifacts a where a.workspace_id = $1 and a.command_id = any($3::uuid[])
   union select a.artifact_id from concord.domain_effects e cross join lateral (
     select a.artifact_id from concord.artifacts a where ${madeFrom('effect', 'e.domain_effect_id::text')}) as a
     where e.workspace_id = $1 and e.command_id = any($3::uuid[]))
  union
  select a.artifact_id from line cross join lateral (
    select a.artifact_id from concord.artifacts a where ${madeFrom('artifact', 'line.artifact_id::text')}) as a
)
select t.* from concord.artifacts t
 where t.workspace_id = $1 and t.artifact_id in (select line.artifact_id from line)
   and (t.location not like 'removed:%' or t.metadata - array['type_version', 'data_class'] <> '{}')
 order by t.artifact_id`

/** $1 workspace, $2 memories, $3 commands. */
export const listLineageSql = statement<StoredArtifact>('artifacts_list_lineage', lineage)

/** The same rows, so that nobody moves or holds one until the transaction ends. */
export const lockLineageSql = statement<StoredArtifact>('artifacts_lock_lineage', `${lineage} for update of t`)
