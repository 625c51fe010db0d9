/** `connector_invocations`, as migration 0011 makes it. */
import { boolean, integer, jsonb, text, uuid } from 'drizzle-orm/pg-core'
import type { ErrorClass } from '#kernel/error-classes'
import type { ConnectorInvocationState } from '#kernel/machines/connector-invocation'
import { at, type JsonObject } from './columns.ts'
import { concord } from './concord-schema.ts'

export const connectorInvocations = concord.table('connector_invocations', {
  connectorInvocationId: uuid('connector_invocation_id').primaryKey(),
  commandId: uuid('command_id').notNull(),
  connectorName: text('connector_name').notNull(),
  operation: text('operation').notNull(),
  sideEffect: boolean('side_effect').notNull().default(false),
  idempotencyKey: text('idempotency_key'),
  status: text('status').$type<ConnectorInvocationState>().notNull(),
  requestPayload: jsonb('request_payload').$type<JsonObject>().notNull(),
  responsePayload: jsonb('response_payload'),
  error: text('error'),
  createdAt: at('created_at').notNull().defaultNow(),
  completedAt: at('completed_at'),
  domainEffectId: uuid('domain_effect_id'),
  traceId: text('trace_id'),
  latencyMs: integer('latency_ms'),
  attempt: integer('attempt'),
  errorClass: text('error_class').$type<ErrorClass>(),
  workspaceId: uuid('workspace_id').notNull(),
})
