/** A call as the database has it, and how it is completed. */
import type { ErrorClass } from '#kernel/error-classes'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { type ConnectorInvocationState, connectorInvocationMachine } from '#kernel/machines/connector-invocation'
import { rowType, storedMachine } from '#store'
import { connectorLog } from './events.ts'

export type StoredInvocation = {
  readonly connector_invocation_id: string
  readonly command_id: string
  readonly connector_name: string
  readonly operation: string
  readonly side_effect: boolean
  readonly idempotency_key: string | null
  readonly status: ConnectorInvocationState
  readonly request_payload: JsonObject
  readonly response_payload: JsonValue
  readonly error: string | null
  readonly created_at: Date
  readonly completed_at: Date | null
  readonly domain_effect_id: string | null
  readonly trace_id: string | null
  readonly latency_ms: number | null
  readonly attempt: number | null
  readonly error_class: ErrorClass | null
  readonly workspace_id: string
}

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
