/**
 * Rows that the schema accepts, with one builder per table. A test changes one column and knows that the rest of the row is
 * valid.
 */
import { randomUUID } from 'node:crypto'
import type { Sql } from '../../src/store/statement.ts'
import { budgetRows } from './budget-rows.ts'
import { flowRows, putFlowRows } from './flow-rows.ts'
import { missionRows, putMissionRows } from './mission-rows.ts'

export type Row = Readonly<Record<string, unknown>>
type Asks = Pick<Sql, 'query'>

/** Objects become JSON and arrays Postgres arrays; a JSON array is given as text. */
export async function insertRow<R extends Row>(sql: Asks, table: string, row: R): Promise<R> {
  const columns = Object.keys(row)
  const marks = columns.map((_, index) => `$${index + 1}`)
  await sql.query(`insert into ${table} (${columns.join(', ')}) values (${marks.join(', ')})`, Object.values(row))
  return row
}

/** The events of a journal row with one event. */
export function journalOf(event: Row): string {
  return JSON.stringify([{ type: 'command_created', purpose: 'audit', actor: 'user:ada', payload: {}, ...event }])
}

const hash32 = (fill: number): Buffer => Buffer.alloc(32, fill)
const hexHash = hash32(3).toString('hex')

/** One row of everything that a workspace can hold. */
const worldIds = [
  'org',
  'user',
  'other',
  'role',
  'workspace',
  'command',
  'parent',
  'swarm',
  'agent',
  'child',
  'effect',
  'approval',
  'artifact',
  'memory',
  'summary',
  'candidate',
  'invocation',
  'account',
  'mission',
  'task',
  'dag',
  'job',
  'dataset',
  'dataset_version',
  'flow_task',
] as const
export type StoreRows = Readonly<Record<(typeof worldIds)[number], string>>

export const aStoreRowsOf = (ids: Partial<StoreRows> = {}): StoreRows => ({
  ...(Object.fromEntries(worldIds.map((name) => [name, randomUUID()])) as StoreRows),
  ...ids,
})

/** A new row for each table of `world`, with new unique keys. */
export const rowsOf = {
  'identity.orgs': () => ({ id: randomUUID(), name: 'Acme', slug: randomUUID() }),
  'identity.users': ({ org }: StoreRows) => ({
    id: randomUUID(),
    org_id: org,
    external_id: randomUUID(),
    role: 'writer',
  }),
  'identity.org_roles': ({ org }: StoreRows) => ({
    id: randomUUID(),
    org_id: org,
    slug: randomUUID(),
    name: 'Finance',
  }),
  'identity.org_role_memberships': ({ org, role, user }: StoreRows) => ({ org_id: org, role_id: role, user_id: user }),
  'identity.workspaces': ({ org }: StoreRows) => ({ id: randomUUID(), org_id: org, slug: randomUUID(), name: 'Books' }),
  'identity.api_keys': ({ org, user }: StoreRows) => ({
    id: randomUUID(),
    org_id: org,
    user_id: user,
    name: 'laptop',
    prefix: randomUUID(),
    key_hash: Buffer.concat([Buffer.from(randomUUID().replaceAll('-', ''), 'hex'), Buffer.alloc(16)]),
    role: 'writer',
  }),
  'identity.delegations': ({ org, user, other }: StoreRows) => ({
    id: randomUUID(),
    org_id: org,
    from_user_id: user,
    to_user_id: other,
    until: '2030-01-01T00:00:00Z',
    made_by: [user],
    created_at: '2026-05-01T10:00:00Z',
  }),
  'identity.messages': ({ org, other }: StoreRows) => ({
    id: randomUUID(),
    org_id: org,
    user_id: other,
    subject: 'An invitation',
    text: 'It waits.',
    created_at: '2026-05-01T10:00:00Z',
  }),
  'concord.commands': ({ workspace }: StoreRows) => ({
    command_id: randomUUID(),
    workspace_id: workspace,
    command_type: 'generate_report',
    requested_by: 'user:ada',
    ingress: 'user_request',
    payload: { month: '2026-05' },
    context: {},
    status: 'created',
    payload_hash: 'h1',
  }),
  'concord.command_dependencies': ({ workspace, command, parent }: StoreRows) => ({
    workspace_id: workspace,
    child_command_id: command,
    parent_command_id: parent,
  }),
  // Of the command without a swarm and a run: one of each lives for a command.
  'concord.swarm_runs': ({ workspace, parent }: StoreRows) => ({
    swarm_run_id: randomUUID(),
    workspace_id: workspace,
    command_id: parent,
    status: 'created',
    objective: 'find out',
    execution_mode: 'parallel',
    join_strategy: 'all_success',
  }),
  'concord.agent_runs': ({ workspace, parent, swarm }: StoreRows) => ({
    agent_run_id: randomUUID(),
    workspace_id: workspace,
    command_id: parent,
    swarm_run_id: swarm,
    agent_name: 'Ada',
    agent_role: 'analyst',
    status: 'created',
    goal: 'find out',
  }),
  'concord.agent_invocations': ({ workspace, command, swarm, agent, child }: StoreRows) => ({
    invocation_id: randomUUID(),
    workspace_id: workspace,
    command_id: command,
    swarm_run_id: swarm,
    parent_agent_run_id: agent,
    child_agent_run_id: child,
    invocation_type: 'spawn',
    delegated_goal: 'find out',
    max_steps: 5,
    spawn_depth: 1,
  }),
  'concord.agent_messages': ({ workspace, agent }: StoreRows) => ({
    agent_message_id: randomUUID(),
    workspace_id: workspace,
    agent_run_id: agent,
    position: 1,
    turn: 0,
    message_role: 'user',
    message_type: 'instruction',
    content: '"find out"',
    digest: hexHash,
    size_bytes: 10,
  }),
  'concord.domain_effects': ({ workspace, command }: StoreRows) => ({
    domain_effect_id: randomUUID(),
    workspace_id: workspace,
    command_id: command,
    effect_type: 'connector.mail.send',
    effect_payload: { to: 'finance' },
    declaration_order: 0,
  }),
  'concord.journal': ({ workspace, command }: StoreRows) => ({
    entry_id: randomUUID(),
    workspace_id: workspace,
    command_id: command,
    trace_id: 'trace_1',
    events: journalOf({}),
  }),
  'concord.domain_event_seals': ({ workspace }: StoreRows) => ({
    workspace_id: workspace,
    seal_no: 1,
    xid_from: '1',
    xid_to: '9',
    first_seq: 1,
    last_seq: 3,
    row_count: 3,
    root_hash: hash32(1),
    previous_hash: hash32(0),
    seal_hash: hash32(2),
  }),
  'concord.history_archives': ({ workspace, command }: StoreRows) => ({
    history_archive_id: randomUUID(),
    workspace_id: workspace,
    file: `${randomUUID()}.jsonl.gz`,
    content_hash: hash32(7),
    event_count: 3,
    command_ids: [command],
    first_xid: '5',
    first_seq: 1,
    last_xid: '5',
    last_seq: 3,
    ended_before: '2026-05-01Z',
  }),
  'concord.approvals': ({ workspace, command }: StoreRows) => ({
    approval_id: randomUUID(),
    workspace_id: workspace,
    command_id: command,
    requested_by: 'user:ada',
    approver: 'data_owner',
    approval_type: 'external_sharing',
    request_payload: {},
    review_packet: {},
    payload_hash: 'h1',
  }),
  'concord.memory_records': ({ workspace, command }: StoreRows) => ({
    memory_id: randomUUID(),
    workspace_id: workspace,
    subject_type: 'user',
    subject_id: 'ada',
    scope: 'user',
    memory_type: 'preference',
    content: { seat: 'aisle' },
    status: 'active',
    command_id: command,
    created_by: 'user:ada',
    fact_key: randomUUID(),
  }),
  'concord.memory_candidates': ({ workspace, command }: StoreRows) => ({
    memory_candidate_id: randomUUID(),
    workspace_id: workspace,
    command_id: command,
    subject_type: 'user',
    subject_id: 'ada',
    scope: 'user',
    memory_type: 'preference',
    content: { seat: 'aisle' },
    created_by: 'user:ada',
    sensitivity: 'internal',
    status: 'proposed',
    fact_key: 'travel.seat',
  }),
  'concord.memory_derivations': ({ workspace, memory, summary }: StoreRows) => ({
    workspace_id: workspace,
    memory_id: summary,
    source_memory_id: memory,
  }),
  'concord.memory_embeddings': ({ workspace, memory }: StoreRows) => ({
    workspace_id: workspace,
    memory_id: memory,
    model: randomUUID(),
    embedding: [0.5, 0.5],
  }),
  'concord.memory_consents': ({ workspace }: StoreRows) => ({
    memory_consent_id: randomUUID(),
    workspace_id: workspace,
    subject_type: 'user',
    subject_id: randomUUID(),
    memory_type: 'preference',
    scope: 'user',
    granted_by: 'user:ada',
  }),
  'concord.memory_reads': ({ workspace, agent, memory }: StoreRows) => ({
    memory_read_id: randomUUID(),
    workspace_id: workspace,
    reader: 'user:ada',
    agent_run_id: agent,
    query_kind: 'subject',
    memory_ids: [memory],
    trace_id: 'trace_1',
  }),
  'concord.memory_holds': ({ workspace }: StoreRows) => ({
    memory_hold_id: randomUUID(),
    workspace_id: workspace,
    subject_type: 'user',
    subject_id: 'ada',
    reason: 'case 7',
    placed_by: 'user:bob',
  }),
  'concord.memory_erasures': ({ workspace, command }: StoreRows) => ({
    memory_erasure_id: randomUUID(),
    workspace_id: workspace,
    command_id: command,
    subject_type: 'user',
    subject_id: 'ada',
    subject_digest: 'd1',
    requested_by: 'user:ada',
  }),
  'concord.artifacts': ({ workspace, command }: StoreRows) => ({
    artifact_id: randomUUID(),
    workspace_id: workspace,
    command_id: command,
    artifact_type: 'report',
    location: `disk:${'a'.repeat(64)}`,
    status: 'ready',
    created_by: 'user:ada',
    checksum: `sha256:${'a'.repeat(64)}`,
    content_type: 'text/plain',
    size_bytes: 7,
  }),
  'schedules.command_schedules': ({ workspace }: StoreRows) => ({
    schedule_id: randomUUID(),
    workspace_id: workspace,
    name: randomUUID(),
    origin: 'person',
    command_type: 'generate_report',
    cron: '30 2 * * *',
    queue: 'scheduled_maintenance',
    overlap: 'skip',
    misfire: 'last',
    created_by: 'user:ada',
    created_role: 'writer',
  }),
  'concord.connector_invocations': ({ workspace, command }: StoreRows) => ({
    connector_invocation_id: randomUUID(),
    workspace_id: workspace,
    command_id: command,
    connector_name: 'mail',
    operation: 'send',
    status: 'started',
    request_payload: {},
  }),
  ...budgetRows,
  'concord.notification_reads': ({ workspace, invocation, user }: StoreRows) => ({
    workspace_id: workspace,
    connector_invocation_id: invocation,
    user_id: user,
    read_at: '2026-05-01Z',
  }),
  'concord.connector_definitions': ({ workspace }: StoreRows) => ({
    workspace_id: workspace,
    connector_name: 'mail',
    operation: 'send',
    seen_definition: {},
    seen_hash: 'sha256:1',
    seen_at: '2026-05-01Z',
  }),
  ...missionRows,
  ...flowRows,
} as const satisfies Record<string, (world: StoreRows) => Row>

export type TableName = keyof typeof rowsOf
export const tableNames = Object.keys(rowsOf) as readonly TableName[]

/** Inserts a row into every table, except for archives, which only the owner may add. */
export async function insertStoreRows(sql: Asks, world: StoreRows = aStoreRowsOf()): Promise<StoreRows> {
  const put = (table: TableName, row: Row = {}) => insertRow(sql, table, { ...rowsOf[table](world), ...row })
  await put('identity.orgs', { id: world.org })
  await put('identity.users', { id: world.user })
  await put('identity.users', { id: world.other })
  await put('identity.org_roles', { id: world.role })
  await put('identity.org_role_memberships')
  await put('identity.workspaces', { id: world.workspace })
  await put('identity.api_keys')
  await put('identity.delegations')
  await put('identity.messages')
  await put('concord.commands', { command_id: world.parent })
  await put('concord.commands', { command_id: world.command })
  await put('concord.command_dependencies')
  await put('concord.swarm_runs', { swarm_run_id: world.swarm, command_id: world.command })
  await put('concord.agent_runs', { agent_run_id: world.agent, command_id: world.command })
  const ended = { status: 'succeeded', completed_at: '2026-05-01Z', end_reason: 'final_answer_created' }
  await put('concord.agent_runs', { agent_run_id: world.child, ...ended })
  await put('concord.agent_invocations')
  await put('concord.agent_messages', { position: 0 })
  await put('concord.domain_effects', { domain_effect_id: world.effect })
  await put('concord.journal')
  await put('concord.domain_event_seals')
  await put('concord.approvals', { approval_id: world.approval })
  await put('concord.memory_candidates', { memory_candidate_id: world.candidate })
  await put('concord.memory_records', { memory_id: world.memory })
  await put('concord.memory_records', { memory_id: world.summary })
  for (const table of tableNames.filter((name) => /memory_(?!records|candidates)/.test(name))) await put(table)
  await put('concord.artifacts', { artifact_id: world.artifact })
  await put('schedules.command_schedules')
  await put('concord.connector_invocations', { connector_invocation_id: world.invocation })
  await put('concord.budget_accounts', { account_id: world.account })
  await put('concord.budget_entries')
  await put('concord.model_quarantines')
  await put('concord.notification_reads')
  await put('concord.connector_definitions')
  await putMissionRows(put, world)
  await putFlowRows(put, world)
  return world
}
