/** Kinds of approval of which so many wait that nobody reads them any more. */
import { statement } from '#store'

export type CrowdedType = { readonly workspace_id: string; readonly approval_type: string; readonly waiting: number }

/** $1 how many are too many. */
export const listCrowded = statement<CrowdedType>(
  'approvals.list_crowded',
  `select workspace_id, approval_type, count(*)::int as waiting
     from concord.approvals
    where status = 'pending'
    group by workspace_id, approval_type
   having count(*) >= $1
    order by waiting desc, workspace_id, approval_type`,
)
