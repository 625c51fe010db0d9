/** What holds for the schema as a whole, asked of the catalogue, so that a table added later is asked too. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type Machine, statesOf } from '#kernel/machine'
import { agentRunMachine, joinStrategies, swarmRunMachine } from '#kernel/machines/agent'
import { approvalMachine } from '#kernel/machines/approval'
import { artifactMachine } from '#kernel/machines/artifact'
import { commandMachine, effectMachine } from '#kernel/machines/command'
import { connectorInvocationMachine } from '#kernel/machines/connector-invocation'
import { memoryCandidateMachine, memoryRecordMachine } from '#kernel/machines/memory'
import { missionRunMachine, missionTaskMachine } from '#kernel/machines/mission'
import { flowOutboxMachine, flowTaskMachine } from '#kernel/machines/flow'
import { misfirePolicies, overlapPolicies } from '#kernel/schedule'
import { openTestDb, type TestDb } from '#test/database'
import { insertStoreRows } from '#test/store-rows'
import { type Catalogue, readCatalogue } from '#test/schema/catalogue'
import { closedList as readClosedList } from '#test/schema/picture'

describe('rules of the whole schema', () => {
  let opened: TestDb
  let catalogue: Catalogue

  before(async () => {
    opened = await openTestDb()
    catalogue = await readCatalogue(opened.db)
  })
  after(() => opened.close())

  const ours = () => catalogue.tables.map(({ table }) => table).filter((table) => !table.startsWith('public.'))
  const tableNames = () => ours().map((table) => table.slice(table.indexOf('.') + 1))
  /** The checks of a table, and those of its columns' domains as if they stood in the table. */
  const checksOf = (table: string): string[] => [
    ...catalogue.constraints
      .filter(({ owner, text }) => owner === table && text.includes(' CHECK '))
      .map(({ text }) => text),
    ...catalogue.columns
      .filter((column) => column.table === table)
      .flatMap(({ column, type }) =>
        catalogue.domains
          .filter(({ text }) => text.startsWith(`create domain ${type} as `))
          .map(({ text }) => text.replaceAll('VALUE', column)),
      ),
  ]
  const foreignKeys = () => catalogue.constraints.filter(({ text }) => text.includes('FOREIGN KEY'))

  const closedList = (table: string, column: string): string[] | undefined => {
    const { type = '' } = catalogue.columns.find((each) => each.table === table && each.column === column) ?? {}
    return readClosedList(catalogue, { table, column, type })
  }

  test('[SUP-04] [SUP-05] [SUP-17] no queue, claim, outbox, step or task-run tables, and no claim or lease columns', () => {
    const gone = [
      'task_queue',
      'worker_claims',
      'effect_outbox',
      'command_events',
      'domain_audit_log',
      'agent_steps',
      'task_runs',
    ]
    const inConcord = ours().filter((table) => table.startsWith('concord.'))
    assert.ok(inConcord.length >= 8)
    assert.deepEqual(
      tableNames().filter((name) => gone.includes(name)),
      [],
    )
    const columns = catalogue.columns.filter(({ table }) => inConcord.includes(table)).map(({ column }) => column)
    assert.deepEqual(
      columns.filter((name) => ['claimed_by', 'lease_until', 'task_run_id'].includes(name)),
      [],
    )
    assert.match(
      catalogue.comments.map(({ text }) => text).join('\n'),
      /command_events, domain_audit_log and agent_steps/,
    )
    assert.deepEqual(
      catalogue.indexes.filter(({ text }) => text.includes('agent_steps')),
      [],
    )
  })

  test('[SUP-08] no table or index has the prefix pf_, and a key is unique in its workspace', () => {
    assert.ok(
      catalogue.indexes.some(({ text }) =>
        text.startsWith(
          'CREATE UNIQUE INDEX commands_idempotency_key_uq ON concord.commands USING btree (idempotency_key, workspace_id)',
        ),
      ),
    )
    assert.deepEqual(
      [...tableNames(), ...catalogue.indexes.map(({ text }) => text)].filter((name) => /\bpf_/.test(name)),
      [],
    )
  })

  test('[OQ-03] of the runtime only the workflow id is kept, on commands and effects', () => {
    const mirrored = catalogue.columns.filter(
      ({ table, column }) => table.startsWith('concord.') && column.includes('workflow_id'),
    )
    assert.deepEqual(
      mirrored.map(({ table, column }) => `${table}.${column}`),
      ['concord.commands.runtime_workflow_id', 'concord.domain_effects.executed_by_runtime_workflow_id'],
    )
  })

  test('[FLOW-009] no foreign key cascades, nulls or defaults, except inside missions', () => {
    assert.ok(foreignKeys().length > 20)
    const changing = foreignKeys().filter(({ text }) => /ON (DELETE|UPDATE)/.test(text))
    assert.deepEqual(
      changing.filter(({ owner }) => !owner.startsWith('missions.')),
      [],
    )
    // Nothing outside of missions disappears with one of their rows.
    const outside = /REFERENCES (?!missions\.|identity\.workspaces\()/
    assert.deepEqual(
      changing.filter(({ text }) => outside.test(text)),
      [],
    )
  })

  test('[FLOW-009] an org, a user, a role or a workspace with data cannot be deleted', async () => {
    await insertStoreRows(opened.db)
    for (const table of [
      'identity.orgs',
      'identity.users',
      'identity.org_roles',
      'identity.workspaces',
      'concord.commands',
    ]) {
      await assert.rejects(opened.db.query(`delete from ${table}`), { code: '23503' }, table)
    }
  })

  test('a row of a workspace points only at rows of the same workspace', () => {
    const scoped = new Set(
      catalogue.columns.filter(({ column }) => column === 'workspace_id').map(({ table }) => table),
    )
    const inConcord = ours().filter((table) => table.startsWith('concord.'))
    assert.deepEqual(
      inConcord.filter((table) => !scoped.has(table)),
      [],
    )
    const loose = foreignKeys().filter(({ owner, text }) => {
      const target = /REFERENCES ([a-z_.]+)\(/.exec(text)?.[1] ?? ''
      return (
        owner.startsWith('concord.') &&
        target.startsWith('concord.') &&
        !/FOREIGN KEY \((workspace_id, .*\(workspace_id, .*|.*, workspace_id\) .*, workspace_id\))/.test(text)
      )
    })
    assert.deepEqual(loose, [])
  })

  test('[PER-10] [FLOW-054] [FLOW-080] status columns hold exactly the states of their machines', () => {
    const machines: readonly (readonly [string, Machine])[] = [
      ['concord.commands', commandMachine],
      ['concord.domain_effects', effectMachine],
      ['concord.approvals', approvalMachine],
      ['concord.artifacts', artifactMachine],
      ['concord.connector_invocations', connectorInvocationMachine],
      ['concord.swarm_runs', swarmRunMachine],
      ['concord.agent_runs', agentRunMachine],
      ['concord.memory_records', memoryRecordMachine],
      ['concord.memory_candidates', memoryCandidateMachine],
      ['flow.tasks', flowTaskMachine],
      ['flow.outbox', flowOutboxMachine],
    ]
    for (const [table, machine] of machines)
      assert.deepEqual(closedList(table, 'status')?.sort(), [...statesOf(machine)].sort(), table)
    for (const [table, machine] of [
      ['missions.orchestration_runs', missionRunMachine],
      ['missions.orchestration_tasks', missionTaskMachine],
    ] as const)
      assert.deepEqual(closedList(table, 'state')?.sort(), [...statesOf<string>(machine)].sort(), table)
    assert.deepEqual(
      closedList('concord.command_dependencies', 'required_status')?.sort(),
      [...statesOf(commandMachine)].sort(),
    )
  })

  test('[PER-10] [EVT-02] [MEM-02] [MEM-03] the other closed lists are the ones of the specification, and the row types repeat them for the code', () => {
    const lists: readonly (readonly [string, string, readonly string[]])[] = [
      [
        'concord.commands',
        'ingress',
        [
          'user_request',
          'scheduled_trigger',
          'webhook',
          'system_event',
          'agent_action',
          'connector_event',
          'human_decision',
        ],
      ],
      ['concord.commands', 'cancellation_mode', ['graceful', 'compensate_then_stop']],
      ['concord.domain_effects', 'reversibility', ['reversible', 'compensatable', 'irreversible']],
      ['concord.artifacts', 'visibility', ['private', 'workspace']],
      ['concord.domain_events', 'purpose', ['event', 'audit', 'agent_step']],
      [
        'concord.swarm_runs',
        'execution_mode',
        ['sequential', 'parallel', 'competitive', 'review_driven', 'hierarchical'],
      ],
      ['concord.swarm_runs', 'join_strategy', joinStrategies],
      ['concord.agent_messages', 'message_role', ['system', 'user', 'assistant', 'tool', 'agent']],
      [
        'concord.agent_messages',
        'message_type',
        ['instruction', 'question', 'answer', 'observation', 'critique', 'result'],
      ],
      ['schedules.command_schedules', 'origin', ['catalog', 'person']],
      ['schedules.command_schedules', 'overlap', overlapPolicies],
      ['schedules.command_schedules', 'misfire', misfirePolicies],
      [
        'concord.memory_records',
        'scope',
        ['user', 'team', 'project', 'workspace', 'tenant', 'agent_role', 'workflow_type', 'global'],
      ],
      [
        'concord.memory_records',
        'memory_type',
        [
          'preference',
          'workflow_preference',
          'business_rule',
          'safety_rule',
          'connector_hint',
          'approval_routing',
          'fact',
        ],
      ],
      ['concord.memory_candidates', 'sensitivity', ['public', 'internal', 'confidential', 'pii', 'payment']],
      ['concord.memory_reads', 'query_kind', ['id', 'subject', 'task_type', 'connector', 'semantic']],
      ['concord.memory_erasures', 'outcome', ['erased', 'dropped']],
      ['identity.users', 'role', ['reader', 'writer', 'admin']],
      ['identity.api_keys', 'role', ['reader', 'writer', 'admin']],
    ]
    for (const [table, column, values] of lists)
      assert.deepEqual(closedList(table, column), [...values], `${table}.${column}`)
  })

  test('[PER-10] every status, mode, purpose, class or role column has a closed list', () => {
    const enumerated = catalogue.columns.filter(
      ({ table, column, baseType }) =>
        ours().includes(table) && baseType === 'text' && /(^|_)(status|mode|purpose|class|role|ingress)$/.test(column),
    )
    const open = enumerated.filter(({ table, column }) => closedList(table, column) === undefined)
    assert.ok(enumerated.length >= 15)
    // An agent's role is the name of a contract in the registry, where the list is kept.
    assert.deepEqual(
      open.map(({ table, column }) => `${table}.${column}`),
      ['concord.agent_runs.agent_role'],
    )
  })

  test('no time is infinite: every timestamp column is in a check or of a finite kind', () => {
    const times = catalogue.columns.filter(
      ({ table, baseType }) => ours().includes(table) && baseType === 'timestamp with time zone',
    )
    const free = times.filter(
      ({ table, column }) => !checksOf(table).some((text) => text.includes(`isfinite(${column})`)),
    )
    assert.deepEqual(
      free.map(({ table, column }) => `${table}.${column}`),
      [],
    )
  })

  test('every table has row security, forced, with a rule for the engine', () => {
    for (const { table, rowSecurity } of catalogue.tables.filter(({ table }) => ours().includes(table))) {
      assert.equal(rowSecurity, 'enable row level security, force row level security', table)
      const policies = catalogue.policies.filter(({ owner }) => owner === table).map(({ text }) => text)
      assert.ok(
        policies.some((text) => text.includes('for all to concord_engine using (true) with check (true)')),
        table,
      )
      const isTenants = catalogue.columns.some((column) => column.table === table && column.column === 'workspace_id')
      const scoped = policies.filter(
        (text) => text.includes('to concord_app') && text.includes(`current_setting('concord.workspace_id'`),
      )
      // Keys are checked before a workspace is known: the request role has no right to them at all.
      if (isTenants && table !== 'identity.api_keys') assert.equal(scoped.length, 1, table)
    }
  })

  test('only the owner may delete, truncate or reference, and public has no rights', () => {
    const wide = catalogue.grants.filter(
      ({ text }) => /\b(delete|truncate|references|trigger|maintain)\b/.test(text) || / to public$/i.test(text),
    )
    // The service deletes an org role that a person leaves, signals that are no longer kept, and waits that have ended.
    assert.deepEqual(
      wide.map(({ text }) => text),
      [
        'grant delete, insert, select, update on concord.signal_waits to concord_engine',
        'grant delete, insert, select, update on concord.signals to concord_engine',
        'grant delete, insert, select, update on flow.dag_current_versions to concord_engine',
        'grant delete, insert, select on identity.org_role_memberships to concord_engine',
      ],
    )
  })

  test('no index can be mistaken for the target of a key: one led by the first column of the key is led by all of them', async () => {
    // Before a table has statistics a planner prefers the shorter match, and a check of a reference reads a whole workspace.
    const mistaken = await opened.db.query(
      `with target as (
         select distinct confrelid as relid, confkey as columns from pg_constraint
         where contype = 'f' and cardinality(confkey) > 1 and connamespace::regnamespace::text in ('concord', 'identity')
       )
       select i.indexrelid::regclass::text as index from target as t
       join pg_index as i on i.indrelid = t.relid and i.indpred is null
       cross join lateral (select (i.indkey::smallint[])[0:i.indnkeyatts - 1] as columns) as k
       where k.columns[1] = any (t.columns)
         and not (i.indisunique and k.columns <@ t.columns)
         and not (t.columns <@ k.columns[1:cardinality(t.columns)])`,
    )
    assert.deepEqual(mistaken, [])
  })
})
