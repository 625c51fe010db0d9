/** Every rule of swarm and agent runs, broken once. */
import { breakEveryRule } from '#test/broken-rows'

const forever = { created_at: 'infinity' }
const same = '00000000-0000-7000-8000-000000000001'

breakEveryRule(
  ['concord.swarm_runs', 'concord.agent_runs'],
  [
    {
      constraint: 'swarm_runs_command_fk',
      table: 'concord.swarm_runs',
      by: ({ elsewhere }) => ({ command_id: elsewhere.command }),
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
    { constraint: 'count_from_one_ck', table: 'concord.swarm_runs', by: [{ max_agents: 0 }, { max_total_steps: 0 }] },
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
    { constraint: 'object_json_ck', table: 'concord.swarm_runs', by: { metadata: '[]' } },
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
      ],
    },

    {
      constraint: 'agent_runs_command_fk',
      table: 'concord.agent_runs',
      by: ({ elsewhere }) => ({ command_id: elsewhere.command }),
    },
    {
      constraint: 'agent_runs_swarm_run_fk',
      table: 'concord.agent_runs',
      by: ({ elsewhere }) => ({ swarm_run_id: elsewhere.swarm }),
    },
    {
      constraint: 'agent_runs_parent_fk',
      table: 'concord.agent_runs',
      by: ({ elsewhere }) => ({ parent_agent_run_id: elsewhere.agent, spawn_depth: 1 }),
    },
    { constraint: 'agent_run_status_ck', table: 'concord.agent_runs', rows: '[PER-10]', by: { status: 'joining' } },
    {
      constraint: 'list_json_ck',
      table: 'concord.agent_runs',
      by: [{ allowed_tools: '{}' }, { allowed_connectors: '"all"' }],
    },
    { constraint: 'object_json_ck', table: 'concord.agent_runs', by: { metadata: '[]' } },
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
      by: [{ status: 'succeeded' }, { status: 'running', completed_at: '2026-05-01Z' }],
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
        { status: 'failed', completed_at: 'infinity' },
        { status: 'cancelled', cancelled_at: 'infinity' },
        { turn_token: same, turn_until: 'infinity' },
      ],
    },
  ],
)
