/** `commands`, `command_dependencies` and `domain_effects`, as migrations 0003 and 0006 make them. */
import { boolean, integer, jsonb, primaryKey, text, uuid } from 'drizzle-orm/pg-core'
import type { CommandState } from '#kernel/machines/command'
import type { EffectState } from '#kernel/machines/effect'
import { at, type JsonObject } from './columns.ts'
import { concord } from './concord-schema.ts'

export const ingressTypes = [
  'user_request',
  'scheduled_trigger',
  'webhook',
  'system_event',
  'agent_action',
  'connector_event',
  'human_decision',
] as const
export type IngressType = (typeof ingressTypes)[number]

export const cancellationModes = ['graceful', 'compensate_then_stop'] as const
export type CancellationMode = (typeof cancellationModes)[number]

export const reversibilities = ['reversible', 'compensatable', 'irreversible'] as const
export type Reversibility = (typeof reversibilities)[number]

export const commands = concord.table('commands', {
  commandId: uuid('command_id').primaryKey(),
  commandType: text('command_type').notNull(),
  requestedBy: text('requested_by').notNull(),
  ingress: text('ingress').$type<IngressType>().notNull(),
  payload: jsonb('payload').$type<JsonObject>().notNull(),
  context: jsonb('context').$type<JsonObject>().notNull(),
  status: text('status').$type<CommandState>().notNull(),
  cancellationMode: text('cancellation_mode').$type<CancellationMode>().notNull().default('graceful'),
  idempotencyKey: text('idempotency_key'),
  runtimeWorkflowId: text('runtime_workflow_id'),
  result: jsonb('result'),
  error: text('error'),
  createdAt: at('created_at').notNull().defaultNow(),
  updatedAt: at('updated_at').notNull().defaultNow(),
  completedAt: at('completed_at'),
  workspaceId: uuid('workspace_id').notNull(),
  requestFingerprint: text('request_fingerprint'),
  payloadHash: text('payload_hash').notNull(),
  taskName: text('task_name'),
  plan: jsonb('plan').$type<JsonObject>(),
  cancellationRequested: boolean('cancellation_requested').notNull().default(false),
  commandTypeVersionId: uuid('command_type_version_id'),
  errorClass: text('error_class'),
  attempt: integer('attempt').notNull().default(1),
  runAfter: at('run_after').defaultNow(),
  turnToken: uuid('turn_token'),
  turnUntil: at('turn_until'),
})

export const commandDependencies = concord.table(
  'command_dependencies',
  {
    childCommandId: uuid('child_command_id').notNull(),
    parentCommandId: uuid('parent_command_id').notNull(),
    requiredStatus: text('required_status').$type<CommandState>().notNull().default('succeeded'),
    propagateCancellation: boolean('propagate_cancellation').notNull().default(true),
    createdAt: at('created_at').notNull().defaultNow(),
    workspaceId: uuid('workspace_id').notNull(),
  },
  (table) => [primaryKey({ columns: [table.childCommandId, table.parentCommandId] })],
)

export const domainEffects = concord.table('domain_effects', {
  domainEffectId: uuid('domain_effect_id').primaryKey(),
  commandId: uuid('command_id').notNull(),
  effectType: text('effect_type').notNull(),
  effectPayload: jsonb('effect_payload').$type<JsonObject>().notNull(),
  idempotencyKey: text('idempotency_key'),
  status: text('status').$type<EffectState>().notNull().default('planned'),
  executedByRuntimeWorkflowId: text('executed_by_runtime_workflow_id'),
  result: jsonb('result'),
  error: text('error'),
  compensatesEffectId: uuid('compensates_effect_id'),
  declaredCompensation: text('declared_compensation'),
  createdAt: at('created_at').notNull().defaultNow(),
  completedAt: at('completed_at'),
  workspaceId: uuid('workspace_id').notNull(),
  declarationOrder: integer('declaration_order').notNull(),
  attempt: integer('attempt').notNull().default(0),
  maxAttempts: integer('max_attempts').notNull().default(3),
  errorClass: text('error_class'),
  runAfter: at('run_after'),
  turnToken: uuid('turn_token'),
  reversibility: text('reversibility').$type<Reversibility>(),
  readBack: jsonb('read_back'),
})
