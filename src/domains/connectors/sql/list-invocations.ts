/** The calls of one connector in one workspace, newest first: ids rise with time. */
import { statement } from '#store'
import type { StoredInvocation } from '../stored-invocation.ts'

/** $1 workspace, $2 connector, $3 status or null, $4 command or null, $5 call to go on before or null, $6 limit. */
export const listInvocationsSql = statement<StoredInvocation>(
  'connectors_list_invocations',
  `select t.*
     from concord.connector_invocations t
    where t.workspace_id = $1::uuid
      and t.connector_name = $2
      and ($3::text is null or t.status = $3)
      and ($4::uuid is null or t.command_id = $4)
      and ($5::uuid is null or t.connector_invocation_id < $5)
    order by t.connector_invocation_id desc
    limit $6`,
)
