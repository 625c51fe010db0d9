/** The artifacts of a workspace that a person may see, newest first. */
import { statement } from '#store'
import type { StoredArtifact } from '../artifact-row.ts'

type ListedArtifact = StoredArtifact & { readonly created_text: string }

/** Each half has its index: rows in use, and the archive. */
function listing(name: string, half: string) {
  return statement<ListedArtifact>(
    name,
    `select t.*, t.created_at::text as created_text
     from concord.artifacts t
    where t.workspace_id = $1::uuid and ${half}
      and ($3 or t.visibility = 'workspace' or t.created_by = $2)
      and ($4::text is null or t.artifact_type = $4)
      and ($5::text is null or t.status = $5)
      and ($6::uuid is null or t.command_id = $6)
      and ($7::timestamptz is null or (t.created_at, t.artifact_id) < ($7::timestamptz, $8::uuid))
    order by t.created_at desc, t.artifact_id desc
    limit $9`,
  )
}

/** $1 workspace, $2 person, $3 sees all, $4 type, $5 status, $6 command, $7 and $8 where the page before ended, $9 limit; null is any. */
export const listCurrentSql = listing('artifacts_list_current', `t.status <> 'archived'`)
export const listArchivedSql = listing('artifacts_list_archived', `t.status = 'archived'`)

/** $1 workspace, $2 swarm run: what its agents have brought, in the order in which they did; what was given up is not among it. */
export const listSwarmArtifactsSql = statement<StoredArtifact>(
  'artifacts_list_swarm',
  `select t.* from concord.artifacts t
    where t.workspace_id = $1 and t.swarm_run_id = $2 and t.status in ('ready', 'published', 'unpublished')
    order by t.created_at, t.artifact_id`,
)
