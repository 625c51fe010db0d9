/** A call as the database has it, and how it is completed. */
import type { JsonObject } from '#kernel/json-value'
import { connectorInvocationMachine } from '#kernel/machines/connector-invocation'
import { rowType, storedMachine } from '#store'
import type { RowOf } from '#store/rows'
import { connectorLog } from './events.ts'

export type StoredInvocation = RowOf<'concord.connector_invocations', { readonly request_payload: JsonObject }>

export const storedInvocation = storedMachine({
  machine: connectorInvocationMachine,
  table: 'concord.connector_invocations',
  id: 'connector_invocation_id',
  tenant: 'workspace_id',
  state: 'status',
  settable: { response_payload: 'jsonb', error: 'text', error_class: 'text', latency_ms: 'integer' },
  returning: ['connector_invocation_id', 'status'],
  row: rowType<Pick<StoredInvocation, 'connector_invocation_id' | 'status'>>(),
  log: {
    log: connectorLog,
    target: 'connector_invocation',
    links: { workspace_id: 'workspace_id', command_id: 'command_id' },
  },
})
