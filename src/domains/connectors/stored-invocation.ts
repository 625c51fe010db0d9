/** A call as the database has it, and how it is completed. */
import type { JsonObject } from '#kernel/json-value'
import { connectorInvocationMachine } from '#kernel/machines/connector-invocation'
import { defineTable } from '#store'
import type { RowOf } from '#store/rows'
import { connectorLog } from './events.ts'

export type StoredInvocation = RowOf<'concord.connector_invocations', { readonly request_payload: JsonObject }>

/** What a call needs to be completed, and what comes back. */
type Call = Pick<StoredInvocation, 'connector_invocation_id' | 'workspace_id' | 'command_id' | 'status'>

export const invocations = defineTable<Call>()({
  name: 'concord.connector_invocations',
  noun: 'connector_invocation',
  id: 'connector_invocation_id',
  tenant: 'workspace_id',
  machine: connectorInvocationMachine,
  state: 'status',
  settable: { response_payload: 'jsonb', error: 'text', error_class: 'text', latency_ms: 'integer' },
  returning: ['connector_invocation_id', 'status'],
  log: connectorLog,
  links: ['workspace_id', 'command_id'],
})
