/** Workspaces, commands and approvals for tests of the store, and machines bound to the real tables. */
import { randomBytes, randomUUID } from 'node:crypto'
import { approvalMachine, commandMachine } from '../../src/kernel/machines/index.ts'
import { uuidV7Generator } from '../../src/kernel/ids.ts'
import { domainEventLog } from '../../src/store/events.ts'
import type { Sql } from '../../src/store/statement.ts'
import { type RowType, storedMachine } from '../../src/store/transition.ts'

export const newId = uuidV7Generator(
  () => new Date(),
  (count) => randomBytes(count),
)

export type CommandRow = {
  readonly command_id: string
  readonly workspace_id: string
  readonly status: string
  readonly turn_token: string | null
  readonly completed_at: Date | null
  readonly cancellation_requested: boolean
  readonly result: unknown
}

export const events = domainEventLog({
  command_created: 'audit',
  command_rejected: 'audit',
  status_changed: 'event',
  status_change_refused: 'audit',
  policy_evaluated: 'audit',
  plan_created: 'event',
  approval_requested: 'audit',
  approval_decided: 'audit',
  approval_expired: 'audit',
  approval_cancelled: 'audit',
  effect_planned: 'event',
  effect_started: 'event',
  effect_executed: 'audit',
  effect_failed: 'audit',
  effect_skipped: 'event',
  connector_called: 'audit',
  connector_definition_seen: 'audit',
  connector_definition_approved: 'audit',
  memory_candidate_created: 'event',
  memory_written: 'audit',
  artifact_created: 'event',
  artifact_published: 'audit',
  cancellation_requested: 'audit',
  compensation_started: 'event',
  compensation_completed: 'event',
  compensation_drift: 'audit',
  subagent_spawned: 'event',
  spawn_denied: 'audit',
  dependency_satisfied: 'event',
})

const commandRow: RowType<CommandRow> = {}
const approvalRow: RowType<{
  approval_id: string
  workspace_id: string
  command_id: string
  status: string
  decided_by: string | null
}> = {}

export const storedCommand = storedMachine({
  machine: commandMachine,
  table: 'concord.commands',
  id: 'command_id',
  tenant: 'workspace_id',
  state: 'status',
  touched: 'updated_at',
  settable: {
    result: 'jsonb',
    error: 'text',
    cancellation_requested: 'boolean',
    attempt: 'integer',
    run_after: 'timestamptz',
  },
  returning: ['command_id', 'workspace_id', 'status', 'turn_token', 'completed_at', 'cancellation_requested', 'result'],
  log: { log: events, target: 'command', links: { workspace_id: 'workspace_id', command_id: 'command_id' } },
  row: commandRow,
})

export const storedApproval = storedMachine({
  machine: approvalMachine,
  table: 'concord.approvals',
  id: 'approval_id',
  tenant: 'workspace_id',
  state: 'status',
  guards: { unexpired: 't.expires_at is null or t.expires_at > statement_timestamp()' },
  settable: { decided_by: 'text', decision_reason: 'text' },
  log: { log: events, target: 'approval', links: { workspace_id: 'workspace_id', command_id: 'command_id' } },
  row: approvalRow,
})

/** Creates an org with one workspace and returns the id of the workspace. */
export async function aWorkspace(sql: Sql): Promise<string> {
  const [org, workspace] = [randomUUID(), randomUUID()]
  await sql.query('insert into identity.orgs (id, name, slug) values ($1, $2, $2)', [org, `org-${org}`])
  await sql.query('insert into identity.workspaces (id, org_id, slug, name) values ($1, $2, $3, $3)', [
    workspace,
    org,
    `ws-${workspace}`,
  ])
  return workspace
}

/** Inserts commands in a state, for tests that ignore their history. */
export async function someCommands(
  sql: Sql,
  workspaceId: string,
  count: number,
  status = 'created',
): Promise<CommandRow[]> {
  const ids = Array.from({ length: count }, () => newId())
  const isEnd = ['succeeded', 'failed', 'cancelled', 'expired', 'compensated'].includes(status)
  await sql.query(
    `insert into concord.commands (command_id, command_type, requested_by, ingress, payload, context, status, workspace_id, payload_hash, completed_at)
     select id, 'test.run', 'user:1', 'user_request', '{}', '{}', $2, $3, 'none', case when $4 then now() end from unnest($1::uuid[]) as id`,
    [ids, status, workspaceId, isEnd],
  )
  return ids.map((command_id) => ({
    command_id,
    workspace_id: workspaceId,
    status,
    turn_token: null,
    completed_at: null,
    cancellation_requested: false,
    result: null,
  }))
}

export async function aCommand(sql: Sql, workspaceId: string, status = 'created'): Promise<CommandRow> {
  const [command] = await someCommands(sql, workspaceId, 1, status)
  return command as CommandRow
}

/** Inserts open approvals of one command. */
export async function someApprovals(sql: Sql, command: CommandRow, count: number, expiresAt: Date | null = null) {
  const ids = Array.from({ length: count }, () => newId())
  await sql.query(
    `insert into concord.approvals (approval_id, command_id, requested_by, approver, approval_type, request_payload, review_packet, workspace_id, payload_hash, expires_at)
     select id, $2, 'user:1', 'role:owner', 'publish', '{}', '{}', $3, 'none', $4 from unnest($1::uuid[]) as id`,
    [ids, command.command_id, command.workspace_id, expiresAt],
  )
  return ids.map((approval_id) => ({
    approval_id,
    command_id: command.command_id,
    workspace_id: command.workspace_id,
    status: 'pending',
  }))
}

/** The default actor, time and trace. */
export function by<const A extends string>(actorKind: A) {
  return { actor: `${actorKind}:1`, actorKind, traceId: 'trace_test', at: new Date(), newId }
}
