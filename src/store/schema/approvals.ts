/** `approvals`, as migration 0007 makes it. */
import { boolean, integer, jsonb, text, uuid } from 'drizzle-orm/pg-core'
import type { ApprovalState } from '#kernel/machines/approval'
import { at, type JsonObject } from './columns.ts'
import { concord } from './concord-schema.ts'

/** The type of the item that asks a person what became of an effect whose outcome nobody can know. */
export const RECONCILE_EFFECT = 'reconcile_effect'

export const approvals = concord.table('approvals', {
  approvalId: uuid('approval_id').primaryKey(),
  commandId: uuid('command_id').notNull(),
  requestedBy: text('requested_by').notNull(),
  approver: text('approver').notNull(),
  approvalType: text('approval_type').notNull(),
  requestPayload: jsonb('request_payload').$type<JsonObject>().notNull(),
  reviewPacket: jsonb('review_packet').$type<JsonObject>().notNull(),
  status: text('status').$type<ApprovalState>().notNull().default('pending'),
  expiresAt: at('expires_at'),
  createdAt: at('created_at').notNull().defaultNow(),
  decidedAt: at('decided_at'),
  workspaceId: uuid('workspace_id').notNull(),
  decidedBy: text('decided_by'),
  decisionReason: text('decision_reason'),
  idempotencyKey: text('idempotency_key'),
  payloadHash: text('payload_hash').notNull(),
  selfDecisionAllowed: boolean('self_decision_allowed').notNull().default(false),
  supersededBy: uuid('superseded_by'),
  approvalsRequired: integer('approvals_required').notNull().default(1),
  approverRoles: text('approver_roles').array().notNull().default([]),
  approvedBy: text('approved_by').array().notNull().default([]),
  domainEffectId: uuid('domain_effect_id'),
})
