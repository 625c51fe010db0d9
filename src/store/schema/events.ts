/** `domain_events` and `domain_event_seals`, as migration 0005 makes them, and `history_archives` of migration 0015. */
import { sql } from 'drizzle-orm'
import { bigint, integer, jsonb, numeric, primaryKey, text, uuid } from 'drizzle-orm/pg-core'
import { at, bytea, type JsonObject, xid8 } from './columns.ts'
import { concord } from './concord-schema.ts'

export const eventPurposes = ['event', 'audit', 'agent_step'] as const
export type EventPurpose = (typeof eventPurposes)[number]

export const domainEvents = concord.table('domain_events', {
  eventId: uuid('event_id').primaryKey(),
  commandId: uuid('command_id'),
  agentRunId: uuid('agent_run_id'),
  swarmRunId: uuid('swarm_run_id'),
  purpose: text('purpose').$type<EventPurpose>().notNull(),
  eventType: text('event_type').notNull(),
  payload: jsonb('payload').$type<JsonObject>().notNull(),
  actor: text('actor').notNull(),
  traceId: text('trace_id').notNull(),
  stepIndex: integer('step_index'),
  toolName: text('tool_name'),
  latencyMs: integer('latency_ms'),
  tokenUsage: jsonb('token_usage').$type<JsonObject>(),
  costUnits: numeric('cost_units'),
  createdAt: at('created_at').notNull().defaultNow(),
  workspaceId: uuid('workspace_id').notNull(),
  // Declared as generated because that keeps both out of inserts: the service's roles may not write them, not even `default`.
  seq: bigint('seq', { mode: 'bigint' }).notNull().generatedAlwaysAs(sql`identity`),
  xid: xid8('xid').notNull().generatedAlwaysAs(sql`pg_current_xact_id()`),
})

export const domainEventSeals = concord.table(
  'domain_event_seals',
  {
    workspaceId: uuid('workspace_id').notNull(),
    sealNo: bigint('seal_no', { mode: 'bigint' }).notNull(),
    xidFrom: xid8('xid_from').notNull(),
    xidTo: xid8('xid_to').notNull(),
    firstSeq: bigint('first_seq', { mode: 'bigint' }).notNull(),
    lastSeq: bigint('last_seq', { mode: 'bigint' }).notNull(),
    rowCount: integer('row_count').notNull(),
    rootHash: bytea('root_hash').notNull(),
    previousSealNo: bigint('previous_seal_no', { mode: 'bigint' }),
    previousHash: bytea('previous_hash').notNull(),
    sealHash: bytea('seal_hash').notNull(),
    sealedAt: at('sealed_at').notNull().defaultNow(),
  },
  (table) => [primaryKey({ columns: [table.workspaceId, table.sealNo] })],
)

export const historyArchives = concord.table('history_archives', {
  historyArchiveId: uuid('history_archive_id').primaryKey(),
  workspaceId: uuid('workspace_id').notNull(),
  file: text('file').notNull(),
  contentHash: bytea('content_hash').notNull(),
  eventCount: integer('event_count').notNull(),
  commandIds: uuid('command_ids').array().notNull(),
  firstXid: xid8('first_xid').notNull(),
  firstSeq: bigint('first_seq', { mode: 'bigint' }).notNull(),
  lastXid: xid8('last_xid').notNull(),
  lastSeq: bigint('last_seq', { mode: 'bigint' }).notNull(),
  endedBefore: at('ended_before').notNull(),
  archivedAt: at('archived_at').notNull().defaultNow(),
})
