/** What was made from any of these artifacts, and what came before them: the way down a lineage, by containment in its index. */
import { statement } from '#store'
import type { StoredArtifact } from '../artifact-row.ts'

/** $1 workspace, $2 patterns such as {"sources":[{"kind":"artifact","id":"…"}]}, $3 ids that may have replaced another, $4 limit. */
export const listProductsSql = statement<StoredArtifact>(
  'artifacts_list_products',
  `select t.* from concord.artifacts t
    where t.workspace_id = $1 and (t.lineage @> any($2::jsonb[]) or t.superseded_by = any($3::uuid[]))
    order by t.created_at, t.artifact_id limit $4`,
)
