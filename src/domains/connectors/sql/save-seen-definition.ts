/** Notes what a provider says about an operation now; no row comes back when it was known already. */
import { statement } from '#store'
import type { StoredDefinition } from '../definitions/stored-definition.ts'

/** $1 workspace, $2 connector, $3 operation, $4 definition, $5 hash, $6 time. */
export const saveSeenDefinition = statement<StoredDefinition>(
  'connectors_save_seen_definition',
  `insert into concord.connector_definitions as d
     (workspace_id, connector_name, operation, seen_definition, seen_hash, seen_at)
   values ($1, $2, $3, $4::jsonb, $5, $6)
   on conflict on constraint connector_definitions_pk do update
     set seen_definition = excluded.seen_definition, seen_hash = excluded.seen_hash, seen_at = excluded.seen_at
     where d.seen_hash <> excluded.seen_hash
   returning d.*`,
)
