/** Approves exactly the definition that was shown: the one with this hash, if it is still the one that was seen last. */
import { statement } from '#store'
import type { StoredDefinition } from '../definitions/stored-definition.ts'

/** $1 workspace, $2 connector, $3 operation, $4 hash, $5 by whom, $6 time. */
export const saveApprovedDefinition = statement<StoredDefinition>(
  'connectors_save_approved_definition',
  `update concord.connector_definitions d
      set approved_definition = seen_definition, approved_hash = seen_hash, approved_by = $5, approved_at = $6
    where d.workspace_id = $1 and d.connector_name = $2 and d.operation = $3
      and d.seen_hash = $4 and d.approved_hash is distinct from d.seen_hash
   returning d.*`,
)
