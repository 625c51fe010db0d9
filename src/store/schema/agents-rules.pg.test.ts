/** Every rule of swarms, runs of agents and their messages, broken once. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { breakEveryRule } from '#test/broken-rows'
import { openTestDb } from '#test/database'
import { insertRow, insertStoreRows, rowsOf, type StoreRows } from '#test/store-rows'

const forever = { created_at: 'infinity' }
const same = '00000000-0000-7000-8000-000000000001'
const sha = 'a'.repeat(64)
const childOf = ({ agent }: StoreRows) => ({ parent_agent_run_id: agent, spawn_depth: 1, invocation_id: same })

breakEveryRule(
  ['concord.swarm_runs', 'concord.agent_runs', 'concord.agent_invocations', 'concord.agent_messages'],
  [
    {
      constraint: 'swarm_runs_command_fk',
      table: 'concord.swarm_runs',
      by: ({ elsewhere }) => ({ command_id: elsewhere.parent }),
    },
    {
      constraint: 'swarm_runs_coordinator_fk',
      table: 'concord.swarm_runs',
      by: ({ elsewhere }) => ({ coordinator_agent_run_id: elsewhere.agent }),
    },
    { constraint: 'swarm_run_status_ck', table: 'concord.swarm_runs', rows: '[PER-10]', by: { status: 'queued' } },
    {
      constraint: 'execution_mode_ck',
      table: 'concord.swarm_runs',
      rows: '[PER-10]',
      by: { execution_mode: 'human_supervised' },
    },
    {
      constraint: 'join_strategy_ck',
      table: 'concord.swarm_runs',
      rows: '[PER-10]',
      by: { join_strategy: 'majority' },
    },
    {
      constraint: 'count_from_one_ck',
      table: 'concord.swarm_runs',
      by: [{ max_agents: 0 }, { max_total_steps: 0 }, { max_parallel: 0 }],
    },
    { constraint: 'swarm_end_reason_ck', table: 'concord.swarm_runs', by: { end_reason: 'tired' } },
    { constraint: 'list_json_ck', table: 'concord.swarm_runs', by: { plan: '{}' } },
    {
      constraint: 'swarm_runs_living_uq',
      table: 'concord.swarm_runs',
      by: ({ here }) => ({ command_id: here.command }),
    },
    { constraint: 'count_from_zero_ck', table: 'concord.swarm_runs', by: { max_depth: -1 } },
    {
      constraint: 'cost_limit_ck',
      table: 'concord.swarm_runs',
      by: [{ max_cost_units: 0 }, { max_cost_units: -1 }, { max_cost_units: 'NaN' }, { max_cost_units: 'Infinity' }],
    },
    {
      constraint: 'swarm_runs_ended_ck',
      table: 'concord.swarm_runs',
      by: [
        { status: 'partially_succeeded' },
        { status: 'cancelled' },
        { status: 'joining', completed_at: '2026-05-01Z' },
        { cancelled_at: '2026-05-01Z' },
      ],
    },
    {
      constraint: 'object_json_ck',
      table: 'concord.swarm_runs',
      by: [{ metadata: '[]' }, { definition: '[]' }, { joined: '[]' }],
    },
    {
      constraint: 'swarm_runs_turn_ck',
      table: 'concord.swarm_runs',
      by: [{ turn_token: same }, { turn_until: '2026-05-01Z' }],
    },
    {
      constraint: 'finite_time_ck',
      table: 'concord.swarm_runs',
      by: [
        forever,
        { started_at: 'infinity' },
        { run_after: 'infinity' },
        { status: 'failed', completed_at: 'infinity' },
        { status: 'cancelled', cancelled_at: 'infinity' },
        { turn_token: same, turn_until: 'infinity' },
        { deadline_at: 'infinity' },
      ],
    },

    {
      constraint: 'agent_runs_command_fk',
      table: 'concord.agent_runs',
      by: ({ elsewhere }) => ({ command_id: elsewhere.parent }),
    },
    {
      constraint: 'agent_runs_swarm_run_fk',
      table: 'concord.agent_runs',
      by: ({ elsewhere }) => ({ swarm_run_id: elsewhere.swarm }),
    },
    {
      constraint: 'agent_runs_parent_fk',
      table: 'concord.agent_runs',
      by: ({ elsewhere }) => ({ parent_agent_run_id: elsewhere.agent, spawn_depth: 1, invocation_id: same }),
    },
    { constraint: 'agent_run_status_ck', table: 'concord.agent_runs', rows: '[PER-10]', by: { status: 'joining' } },
    {
      constraint: 'list_json_ck',
      table: 'concord.agent_runs',
      by: ['allowed_tools', 'allowed_connectors', 'forbidden_tools', 'delegable_tools', 'labels'].map((column) => ({
        [column]: '{}',
      })),
    },
    {
      constraint: 'object_json_ck',
      table: 'concord.agent_runs',
      by: [{ metadata: '[]' }, { manifest: '[]' }, { termination: '[]' }],
    },
    { constraint: 'agent_runs_steps_ck', table: 'concord.agent_runs', by: { step_count: 21 } },
    { constraint: 'count_from_zero_ck', table: 'concord.agent_runs', by: [{ step_count: -1 }, { spawn_depth: -1 }] },
    { constraint: 'count_from_one_ck', table: 'concord.agent_runs', by: { max_steps: 0 } },
    {
      constraint: 'agent_runs_depth_ck',
      table: 'concord.agent_runs',
      by: ({ here }) => [{ spawn_depth: 1 }, { parent_agent_run_id: here.agent, spawn_depth: 0 }],
    },
    {
      constraint: 'agent_runs_ended_ck',
      table: 'concord.agent_runs',
      by: [{ status: 'succeeded' }, { status: 'running', completed_at: '2026-05-01Z', end_reason: 'failed' }],
    },
    {
      constraint: 'agent_runs_turn_ck',
      table: 'concord.agent_runs',
      by: [{ turn_token: same }, { turn_until: '2026-05-01Z' }],
    },
    {
      constraint: 'finite_time_ck',
      table: 'concord.agent_runs',
      by: [
        forever,
        { started_at: 'infinity' },
        { run_after: 'infinity' },
        { status: 'failed', completed_at: 'infinity', end_reason: 'failed' },
        { status: 'cancelled', cancelled_at: 'infinity', end_reason: 'human_cancelled' },
        { turn_token: same, turn_until: 'infinity' },
        { deadline_at: 'infinity' },
      ],
    },
    {
      constraint: 'agent_runs_end_reason_ck',
      table: 'concord.agent_runs',
      by: [{ status: 'succeeded', completed_at: '2026-05-01Z' }, { end_reason: 'failed' }],
    },
    {
      constraint: 'agent_run_end_reason_ck',
      table: 'concord.agent_runs',
      rows: '[PER-10]',
      by: { end_reason: 'tired' },
    },
    {
      constraint: 'agent_runs_parent_hash_ck',
      table: 'concord.agent_runs',
      by: ({ here }) => ({ ...childOf(here), authority_hash: sha }),
    },
    {
      constraint: 'sha256_hex_ck',
      table: 'concord.agent_runs',
      by: ['manifest_hash', 'authority_hash', 'parent_authority_hash'].map((column) => ({ [column]: sha.slice(1) })),
    },
    {
      constraint: 'cost_units_ck',
      table: 'concord.agent_runs',
      by: [{ cost_units: -1 }, { cost_units: 'NaN' }, { cost_units: 'Infinity' }],
    },
    {
      constraint: 'agent_runs_living_uq',
      table: 'concord.agent_runs',
      by: ({ here }) => ({ command_id: here.command }),
    },

    {
      constraint: 'agent_runs_invocation_ck',
      table: 'concord.agent_runs',
      by: ({ here }) => [{ parent_agent_run_id: here.agent, spawn_depth: 1 }, { invocation_id: same }],
    },
    {
      constraint: 'agent_runs_swarm_ck',
      table: 'concord.agent_runs',
      by: ({ here }) => ({ ...childOf(here), swarm_run_id: null }),
    },
    {
      constraint: 'agent_runs_invocation_fk',
      table: 'concord.agent_runs',
      rows: '[SWM-18]',
      by: ({ here }) => childOf(here),
    },

    ...(
      [
        ['command', 'command_id', 'command'],
        ['swarm_run', 'swarm_run_id', 'swarm'],
        ['parent', 'parent_agent_run_id', 'agent'],
        ['child', 'child_agent_run_id', 'agent'],
      ] as const
    ).map(([of, column, id]) => ({
      constraint: `agent_invocations_${of}_fk`,
      table: 'concord.agent_invocations' as const,
      by: ({ elsewhere, here }: { readonly elsewhere: StoreRows; readonly here: StoreRows }) => ({
        child_agent_run_id: here.agent,
        parent_agent_run_id: here.child,
        [column]: elsewhere[id],
      }),
    })),
    {
      constraint: 'agent_invocations_other_ck',
      table: 'concord.agent_invocations',
      by: ({ here }) => ({ child_agent_run_id: here.agent }),
    },
    { constraint: 'agent_invocations_child_ix', table: 'concord.agent_invocations', by: {} },
    {
      constraint: 'agent_invocations_ended_ck',
      table: 'concord.agent_invocations',
      by: [{ status: 'succeeded' }, { completed_at: '2026-05-01Z' }],
    },
    {
      constraint: 'agent_invocation_status_ck',
      table: 'concord.agent_invocations',
      rows: '[SWM-27]',
      by: { status: 'queued' },
    },
    {
      constraint: 'invocation_type_ck',
      table: 'concord.agent_invocations',
      rows: '[SWM-27]',
      by: { invocation_type: 'clone' },
    },
    {
      constraint: 'list_json_ck',
      table: 'concord.agent_invocations',
      by: [{ allowed_tools: '{}' }, { allowed_connectors: '{}' }],
    },
    {
      constraint: 'object_json_ck',
      table: 'concord.agent_invocations',
      by: [{ constraints: '[]' }, { memory_scope: '[]' }, { context_scope: '[]' }],
    },
    { constraint: 'count_from_one_ck', table: 'concord.agent_invocations', by: [{ max_steps: 0 }, { spawn_depth: 0 }] },
    {
      constraint: 'finite_time_ck',
      table: 'concord.agent_invocations',
      by: [forever, { status: 'failed', completed_at: 'infinity' }],
    },

    ...(['agent_run', 'swarm_run', 'parent'] as const).map((of) => ({
      constraint: `agent_messages_${of}_fk`,
      table: 'concord.agent_messages' as const,
      by: ({ elsewhere }: { readonly elsewhere: { readonly agent: string; readonly swarm: string } }) => ({
        [of === 'parent' ? 'parent_agent_run_id' : `${of}_id`]: of === 'swarm_run' ? elsewhere.swarm : elsewhere.agent,
      }),
    })),
    { constraint: 'agent_messages_position_uq', table: 'concord.agent_messages', by: { position: 0 } },
    {
      constraint: 'agent_messages_erased_ck',
      table: 'concord.agent_messages',
      by: [{ content: '' }, { erased_at: '2026-05-01Z' }],
    },
    { constraint: 'message_role_ck', table: 'concord.agent_messages', rows: '[AGT-19]', by: { message_role: 'chair' } },
    { constraint: 'message_type_ck', table: 'concord.agent_messages', rows: '[AGT-19]', by: { message_type: 'chat' } },
    { constraint: 'sha256_hex_ck', table: 'concord.agent_messages', by: { digest: 'x' } },
    {
      constraint: 'count_from_zero_ck',
      table: 'concord.agent_messages',
      by: [{ position: -1 }, { turn: -1 }, { step_index: -1 }, { size_bytes: -1 }],
    },
    { constraint: 'list_json_ck', table: 'concord.agent_messages', by: { labels: '{}' } },
    { constraint: 'object_json_ck', table: 'concord.agent_messages', by: { metadata: '[]' } },
    {
      constraint: 'finite_time_ck',
      table: 'concord.agent_messages',
      by: [forever, { erased_at: 'infinity', content: '' }],
    },
  ],
)

/** Everything else of a run may change while it works. */
const changing = ['agent_run_id', 'status', 'step_count', 'metadata', 'labels', 'end_reason', 'cost_units', 'erasures']
const times = ['created_at', 'started_at', 'completed_at', 'cancelled_at', 'run_after', 'turn_token', 'turn_until']

test('[SWM-31] no column that says what a run may do can be changed, and a label stays: the database refuses', async () => {
  const opened = await openTestDb()
  try {
    const world = await insertStoreRows(opened.db)
    const row = rowsOf['concord.agent_runs'](world)
    await insertRow(opened.db, 'concord.agent_runs', { ...row, labels: '["untrusted"]' })
    const run = [row.agent_run_id]
    const columns = await opened.db.query<{ name: string; type: string }>(
      `select a.attname as name, coalesce(nullif(t.typbasetype, 0), t.oid)::regtype::text as type from pg_attribute a
         join pg_type t on t.oid = a.atttypid where a.attrelid = 'concord.agent_runs'::regclass and a.attnum > 0 and not a.attisdropped`,
    )
    const fixed = columns.filter(({ name }) => ![...changing, ...times].includes(name))
    assert.ok(fixed.length >= 25, String(fixed.length))
    const others: Record<string, string> = {
      uuid: `'${same}'`,
      text: `'${sha}'`,
      integer: '7',
      'timestamp with time zone': `'2030-01-01Z'`,
    }
    const refused = { code: '42501' }
    for (const { name, type } of fixed) {
      const other = others[type] ?? (/_tools|_connectors/.test(name) ? `'["x"]'` : `'{"x":1}'`)
      const changed = `update concord.agent_runs set ${name} = ${other} where agent_run_id = $1`
      await assert.rejects(opened.db.query(changed, run), refused, name)
    }
    const set = (text: string) => opened.db.query(`update concord.agent_runs set ${text} where agent_run_id = $1`, run)
    await set(`goal = goal, step_count = 1, cost_units = 2, labels = '["untrusted", "mail"]'`)
    await assert.rejects(set(`labels = '["mail"]'`), refused)
    const links = 'update concord.commands set agent_run_id = $1 where command_id = $2'
    const linked = { ...rowsOf['concord.commands'](world), ingress: 'agent_action', agent_run_id: world.agent }
    await insertRow(opened.db, 'concord.commands', linked)
    const free = { ...rowsOf['concord.commands'](world), ingress: 'agent_action' }
    await insertRow(opened.db, 'concord.commands', free)
    await opened.db.query(links, [world.agent, linked.command_id])
    for (const [other, commandId] of [
      [row.agent_run_id, linked.command_id],
      [null, linked.command_id],
      [world.agent, free.command_id],
    ])
      await assert.rejects(opened.db.query(links, [other, commandId]), refused, 'the run of a command is written once')
  } finally {
    await opened.close()
  }
})

test('[AGT-19] the content of a message is written once and can only be emptied', async () => {
  const opened = await openTestDb()
  try {
    await insertStoreRows(opened.db)
    const set = (text: string) => opened.db.query(`update concord.agent_messages set ${text}`)
    await assert.rejects(set(`content = '"other"'`), { code: '42501' })
    await set(`content = '', erased_at = now()`)
    const engine = await openTestDb({ role: 'concord_engine' })
    await assert.rejects(engine.db.query(`update concord.agent_messages set digest = ''`), { code: '42501' })
    await engine.close()
  } finally {
    await opened.close()
  }
})
