/** Every rule of events, their seals and their archives, broken once. */
import { breakEveryRule } from '#test/broken-rows'
import type { Row, StoreRows } from '#test/store-rows'

const forever = { created_at: 'infinity' }
const empty = ''
const aStep = ({ agent }: StoreRows, wrong: Row): Row => ({
  purpose: 'agent_step',
  agent_run_id: agent,
  step_index: 5,
  ...wrong,
})

breakEveryRule(
  ['concord.domain_events', 'concord.domain_event_seals', 'concord.history_archives'],
  [
    {
      constraint: 'domain_events_command_fk',
      table: 'concord.domain_events',
      rows: '[EVT-01]',
      by: ({ elsewhere }) => ({ command_id: elsewhere.command }),
    },
    {
      constraint: 'domain_events_agent_run_fk',
      table: 'concord.domain_events',
      rows: '[EVT-01]',
      by: ({ elsewhere }) => ({ agent_run_id: elsewhere.agent }),
    },
    {
      constraint: 'domain_events_swarm_run_fk',
      table: 'concord.domain_events',
      rows: '[EVT-01]',
      by: ({ elsewhere }) => ({ swarm_run_id: elsewhere.swarm }),
    },
    {
      constraint: 'event_purpose_ck',
      table: 'concord.domain_events',
      rows: '[EVT-02]',
      by: [{ purpose: 'log' }, { purpose: 'Audit' }, { purpose: empty }],
    },
    {
      constraint: 'filled_text_ck',
      table: 'concord.domain_events',
      by: [{ actor: empty }, { trace_id: empty }, { event_type: empty }],
    },
    { constraint: 'object_json_ck', table: 'concord.domain_events', by: { payload: 'null' } },
    {
      constraint: 'domain_events_agent_step_ck',
      table: 'concord.domain_events',
      rows: '[EVT-07]',
      by: ({ here }) => [
        { step_index: 0 },
        { tool_name: 'run_sql' },
        { latency_ms: 1 },
        { token_usage: {} },
        { cost_units: 1 },
        { purpose: 'event', step_index: 0, agent_run_id: here.agent },
        { purpose: 'agent_step', step_index: 0 },
        { purpose: 'agent_step', agent_run_id: here.agent },
      ],
    },
    {
      constraint: 'count_from_zero_ck',
      table: 'concord.domain_events',
      by: ({ here }) => [{ step_index: -1 }, { latency_ms: -1 }].map((wrong) => aStep(here, wrong)),
    },
    {
      constraint: 'cost_units_ck',
      table: 'concord.domain_events',
      rows: '[PER-10]',
      by: ({ here }) => [-1, 'NaN', 'Infinity'].map((cost_units) => aStep(here, { cost_units })),
    },
    { constraint: 'finite_time_ck', table: 'concord.domain_events', by: forever },
    {
      constraint: 'idx_domain_events_agent',
      table: 'concord.domain_events',
      rows: '[EVT-08]',
      given: ({ here }) => ({ purpose: 'agent_step', agent_run_id: here.agent, step_index: 7 }),
      by: ({ here }) => ({ purpose: 'agent_step', agent_run_id: here.agent, step_index: 7 }),
    },

    { constraint: 'domain_event_seals_pk', table: 'concord.domain_event_seals', by: {} },
    {
      constraint: 'domain_event_seals_previous_fk',
      table: 'concord.domain_event_seals',
      by: [
        { seal_no: 2, previous_seal_no: 1, xid_from: '8', xid_to: '20', previous_hash: Buffer.alloc(32, 2) },
        { seal_no: 2, previous_seal_no: 1, xid_from: '9', xid_to: '20', previous_hash: Buffer.alloc(32, 3) },
        { seal_no: 3, previous_seal_no: 2, xid_from: '9', xid_to: '20', previous_hash: Buffer.alloc(32, 2) },
      ],
    },
    {
      constraint: 'domain_event_seals_number_ck',
      table: 'concord.domain_event_seals',
      by: [{ seal_no: 0 }, { seal_no: 2 }, { seal_no: 3, previous_seal_no: 1 }, { previous_seal_no: 1 }],
    },
    {
      constraint: 'domain_event_seals_range_ck',
      table: 'concord.domain_event_seals',
      by: [{ xid_to: '1' }, { first_seq: 4 }, { row_count: 0 }],
    },
    {
      constraint: 'domain_event_seals_hashes_ck',
      table: 'concord.domain_event_seals',
      by: [{ root_hash: Buffer.alloc(31) }, { previous_hash: Buffer.alloc(0) }, { seal_hash: Buffer.alloc(33) }],
    },
    { constraint: 'finite_time_ck', table: 'concord.domain_event_seals', by: { sealed_at: 'infinity' } },

    { constraint: 'filled_text_ck', table: 'concord.history_archives', by: { file: empty } },
    {
      constraint: 'history_archives_file_uq',
      table: 'concord.history_archives',
      given: { file: 'one.jsonl.gz' },
      by: { file: 'one.jsonl.gz' },
    },
    { constraint: 'count_from_one_ck', table: 'concord.history_archives', by: { event_count: 0 } },
    {
      constraint: 'history_archives_hash_ck',
      table: 'concord.history_archives',
      by: [{ content_hash: Buffer.alloc(31) }, { content_hash: Buffer.alloc(33) }],
    },
    {
      constraint: 'history_archives_range_ck',
      table: 'concord.history_archives',
      by: [{ last_xid: '4' }, { last_seq: 0 }],
    },
    {
      constraint: 'history_archives_age_ck',
      table: 'concord.history_archives',
      by: { archived_at: '2026-04-30Z' },
    },
    {
      constraint: 'finite_time_ck',
      table: 'concord.history_archives',
      by: [{ ended_before: '-infinity' }, { archived_at: 'infinity' }],
    },
  ],
)
