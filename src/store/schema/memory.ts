/** The memory tables, as migration 0011 makes them, and the closed lists of their columns. */
import { jsonb, numeric, primaryKey, real, text, uuid } from 'drizzle-orm/pg-core'
import type { MemoryCandidateState } from '#kernel/machines/memory-candidate'
import type { MemoryRecordState } from '#kernel/machines/memory-record'
import { at, type JsonObject } from './columns.ts'
import { concord } from './concord-schema.ts'

export const memoryScopes = [
  'user',
  'team',
  'project',
  'workspace',
  'tenant',
  'agent_role',
  'workflow_type',
  'global',
] as const
export type MemoryScope = (typeof memoryScopes)[number]

export const memoryTypes = [
  'preference',
  'workflow_preference',
  'business_rule',
  'safety_rule',
  'connector_hint',
  'approval_routing',
  'fact',
] as const
export type MemoryType = (typeof memoryTypes)[number]

/** From the freest to the strictest that may be remembered; a secret may not. */
export const memorySensitivities = ['public', 'internal', 'confidential', 'pii', 'payment'] as const
export type MemorySensitivity = (typeof memorySensitivities)[number]

export const memoryQueryKinds = ['id', 'subject', 'task_type', 'connector', 'semantic'] as const
export type MemoryQueryKind = (typeof memoryQueryKinds)[number]

export const memoryErasureOutcomes = ['erased', 'dropped'] as const
export type MemoryErasureOutcome = (typeof memoryErasureOutcomes)[number]

export const memoryRecords = concord.table('memory_records', {
  memoryId: uuid('memory_id').primaryKey(),
  subjectType: text('subject_type').notNull(),
  subjectId: text('subject_id').notNull(),
  scope: text('scope').$type<MemoryScope>().notNull(),
  memoryType: text('memory_type').$type<MemoryType>().notNull(),
  content: jsonb('content').$type<JsonObject>().notNull(),
  confidence: numeric('confidence'),
  status: text('status').$type<MemoryRecordState>().notNull(),
  supersededBy: uuid('superseded_by'),
  expiresAt: at('expires_at'),
  commandId: uuid('command_id'),
  createdBy: text('created_by').notNull(),
  createdAt: at('created_at').notNull().defaultNow(),
  updatedAt: at('updated_at').notNull().defaultNow(),
  workspaceId: uuid('workspace_id').notNull(),
  factKey: text('fact_key').notNull(),
  sensitivity: text('sensitivity').$type<MemorySensitivity>().notNull().default('internal'),
  schemaName: text('schema_name'),
  taskType: text('task_type'),
  connector: text('connector'),
  memoryCandidateId: uuid('memory_candidate_id'),
})

export const memoryCandidates = concord.table('memory_candidates', {
  memoryCandidateId: uuid('memory_candidate_id').primaryKey(),
  commandId: uuid('command_id').notNull(),
  agentRunId: uuid('agent_run_id'),
  subjectType: text('subject_type').notNull(),
  subjectId: text('subject_id').notNull(),
  scope: text('scope').$type<MemoryScope>().notNull(),
  memoryType: text('memory_type').$type<MemoryType>().notNull(),
  content: jsonb('content').$type<JsonObject>().notNull(),
  confidence: numeric('confidence'),
  expiresAt: at('expires_at'),
  createdBy: text('created_by').notNull(),
  sensitivity: text('sensitivity').$type<MemorySensitivity>().notNull(),
  status: text('status').$type<MemoryCandidateState>().notNull(),
  approvalId: uuid('approval_id'),
  memoryId: uuid('memory_id'),
  createdAt: at('created_at').notNull().defaultNow(),
  decidedAt: at('decided_at'),
  workspaceId: uuid('workspace_id').notNull(),
  factKey: text('fact_key').notNull(),
  schemaName: text('schema_name'),
  taskType: text('task_type'),
  connector: text('connector'),
  derivedFrom: uuid('derived_from').array().notNull().default([]),
  supersedes: uuid('supersedes'),
  erasedAt: at('erased_at'),
})

export const memoryDerivations = concord.table(
  'memory_derivations',
  {
    workspaceId: uuid('workspace_id').notNull(),
    memoryId: uuid('memory_id').notNull(),
    sourceMemoryId: uuid('source_memory_id').notNull(),
    createdAt: at('created_at').notNull().defaultNow(),
  },
  (table) => [primaryKey({ columns: [table.memoryId, table.sourceMemoryId] })],
)

export const memoryEmbeddings = concord.table(
  'memory_embeddings',
  {
    workspaceId: uuid('workspace_id').notNull(),
    memoryId: uuid('memory_id').notNull(),
    model: text('model').notNull(),
    embedding: real('embedding').array(),
    createdAt: at('created_at').notNull().defaultNow(),
  },
  (table) => [primaryKey({ columns: [table.memoryId, table.model] })],
)

export const memoryConsents = concord.table('memory_consents', {
  memoryConsentId: uuid('memory_consent_id').primaryKey(),
  workspaceId: uuid('workspace_id').notNull(),
  subjectType: text('subject_type').notNull(),
  subjectId: text('subject_id').notNull(),
  memoryType: text('memory_type').$type<MemoryType>().notNull(),
  scope: text('scope').$type<MemoryScope>().notNull(),
  grantedBy: text('granted_by').notNull(),
  grantedAt: at('granted_at').notNull().defaultNow(),
  expiresAt: at('expires_at'),
  revokedAt: at('revoked_at'),
  revokedBy: text('revoked_by'),
})

export const memoryReads = concord.table('memory_reads', {
  memoryReadId: uuid('memory_read_id').primaryKey(),
  workspaceId: uuid('workspace_id').notNull(),
  reader: text('reader').notNull(),
  agentRunId: uuid('agent_run_id'),
  queryKind: text('query_kind').$type<MemoryQueryKind>().notNull(),
  memoryIds: uuid('memory_ids').array().notNull(),
  traceId: text('trace_id').notNull(),
  readAt: at('read_at').notNull().defaultNow(),
})

export const memoryHolds = concord.table('memory_holds', {
  memoryHoldId: uuid('memory_hold_id').primaryKey(),
  workspaceId: uuid('workspace_id').notNull(),
  subjectType: text('subject_type').notNull(),
  subjectId: text('subject_id').notNull(),
  reason: text('reason').notNull(),
  placedBy: text('placed_by').notNull(),
  placedAt: at('placed_at').notNull().defaultNow(),
  releasedAt: at('released_at'),
  releasedBy: text('released_by'),
})

export const memoryErasures = concord.table('memory_erasures', {
  memoryErasureId: uuid('memory_erasure_id').primaryKey(),
  workspaceId: uuid('workspace_id').notNull(),
  commandId: uuid('command_id').notNull(),
  subjectType: text('subject_type').notNull(),
  subjectId: text('subject_id'),
  subjectDigest: text('subject_digest').notNull(),
  requestedBy: text('requested_by').notNull(),
  requestedAt: at('requested_at').notNull().defaultNow(),
  outcome: text('outcome').$type<MemoryErasureOutcome>(),
  closedAt: at('closed_at'),
  certificate: jsonb('certificate').$type<JsonObject>(),
  certificateHash: text('certificate_hash'),
})
