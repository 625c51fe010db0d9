/** What is known of one operation's definition, or of all of a connector's. */
import { statement } from '#store'
import type { StoredDefinition } from '../definitions/stored-definition.ts'

/** $1 workspace, $2 connector, $3 operation or null for all. */
export const findDefinitionSql = statement<StoredDefinition>(
  'connectors_find_definition',
  `select t.* from concord.connector_definitions t
    where t.workspace_id = $1 and t.connector_name = $2 and ($3::text is null or t.operation = $3)
    order by t.operation`,
)
