/** When each connector last answered well in a workspace: the newest such call by its index, ids being in the order of time. */
import { statement } from '#store'

/** $1 workspace, $2 connectors. */
export const findLastSuccessSql = statement<{ readonly connector_name: string; readonly completed_at: Date }>(
  'connectors_find_last_success',
  `select n.connector_name, i.completed_at
     from unnest($2::text[]) as n (connector_name)
     cross join lateral (
       select i.completed_at from concord.connector_invocations i
        where i.workspace_id = $1 and i.connector_name = n.connector_name and i.status = 'succeeded'
        order by i.connector_invocation_id desc limit 1
     ) as i`,
)
