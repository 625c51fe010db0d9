/** The calls of connectors, as migration 0011 makes them, and the definitions of their providers. */
import { boolean, integer, jsonb, primaryKey, text, uuid } from 'drizzle-orm/pg-core'
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

/** As migration 0016 makes it. */
export const notificationReads = concord.table(
  'notification_reads',
  {
    connectorInvocationId: uuid('connector_invocation_id').notNull(),
    userId: uuid('user_id').notNull(),
    readAt: at('read_at').notNull(),
    workspaceId: uuid('workspace_id').notNull(),
  },
  (table) => [primaryKey({ columns: [table.connectorInvocationId, table.userId] })],
)

/** As migration 0013 makes it. */
export const connectorDefinitions = concord.table(
  'connector_definitions',
  {
    workspaceId: uuid('workspace_id').notNull(),
    connectorName: text('connector_name').notNull(),
    operation: text('operation').notNull(),
    seenDefinition: jsonb('seen_definition').$type<JsonObject>().notNull(),
    seenHash: text('seen_hash').notNull(),
    seenAt: at('seen_at').notNull(),
    approvedDefinition: jsonb('approved_definition').$type<JsonObject>(),
    approvedHash: text('approved_hash'),
    approvedBy: text('approved_by'),
    approvedAt: at('approved_at'),
  },
  (table) => [primaryKey({ columns: [table.workspaceId, table.connectorName, table.operation] })],
)
