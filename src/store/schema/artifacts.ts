/** `artifacts`, as migrations 0009 and 0013 make it. */
import { integer, jsonb, text, uuid } from 'drizzle-orm/pg-core'
import type { ArtifactState } from '#kernel/machines/artifact'
import { at, type JsonObject } from './columns.ts'
import { concord } from './concord-schema.ts'

export const artifactVisibilities = ['private', 'workspace'] as const
export type ArtifactVisibility = (typeof artifactVisibilities)[number]

export const artifacts = concord.table('artifacts', {
  artifactId: uuid('artifact_id').primaryKey(),
  commandId: uuid('command_id').notNull(),
  artifactType: text('artifact_type').notNull(),
  location: text('location').notNull(),
  version: integer('version').notNull().default(1),
  status: text('status').$type<ArtifactState>().notNull(),
  metadata: jsonb('metadata').$type<JsonObject>().notNull().default({}),
  lineage: jsonb('lineage').$type<JsonObject>().notNull().default({}),
  createdBy: text('created_by').notNull(),
  createdAt: at('created_at').notNull().defaultNow(),
  agentRunId: uuid('agent_run_id'),
  swarmRunId: uuid('swarm_run_id'),
  checksum: text('checksum').notNull(),
  idempotencyKey: text('idempotency_key'),
  workspaceId: uuid('workspace_id').notNull(),
  domainEffectId: uuid('domain_effect_id'),
  contentType: text('content_type').notNull(),
  sizeBytes: integer('size_bytes').notNull(),
  visibility: text('visibility').$type<ArtifactVisibility>().notNull().default('workspace'),
  publishedTo: text('published_to'),
  supersededBy: uuid('superseded_by'),
  retainUntil: at('retain_until'),
  holdReason: text('hold_reason'),
  publications: jsonb('publications').$type<readonly JsonObject[]>().notNull().default([]),
})
