/** Every rule of events, their seals and their archives, broken once. */
import { breakEveryRule } from '#test/broken-rows'
import { journalOf, type Row, type StoreRows } from '#test/store-rows'

const forever = { created_at: 'infinity' }
const empty = ''
const aStep = ({ agent }: StoreRows, wrong: Row): Row => ({
  agent_run_id: agent,
  step_index: 5,
  events: journalOf({ purpose: 'agent_step', ...wrong }),
})

breakEveryRule(
  ['concord.journal', 'concord.domain_event_seals', 'concord.history_archives'],
  [
    {
      constraint: 'journal_command_fk',
      table: 'concord.journal',
      rows: '[EVT-01]',
      by: ({ elsewhere }) => ({ command_id: elsewhere.command }),
    },
    {
      constraint: 'journal_agent_run_fk',
      table: 'concord.journal',
      rows: '[EVT-01]',
      by: ({ elsewhere }) => ({ agent_run_id: elsewhere.agent }),
    },
    {
      constraint: 'journal_swarm_run_fk',
      table: 'concord.journal',
      rows: '[EVT-01]',
      by: ({ elsewhere }) => ({ swarm_run_id: elsewhere.swarm }),
    },
    {
      constraint: 'journal_events_ck',
      table: 'concord.journal',
      rows: '[EVT-02] [EVT-07] [PER-10]',
      by: ({ here }) => [
        ...['log', 'Audit', empty].map((purpose) => ({ events: journalOf({ purpose }) })),
        ...[{ actor: empty }, { actor: ' ' }, { type: empty }, { payload: null }, { payload: [] }].map((wrong) => ({
          events: journalOf(wrong),
        })),
        { events: '[]' },
        ...[{ tool_name: 'run_sql' }, { latency_ms: 1 }, { token_usage: {} }, { cost_units: 1 }].map((wrong) => ({
          events: journalOf(wrong),
        })),
        { step_index: 0, agent_run_id: here.agent },
        { agent_run_id: here.agent, events: journalOf({ purpose: 'agent_step' }) },
        ...[{ latency_ms: -1 }, { cost_units: -1 }, { cost_units: 'NaN' }, { cost_units: 'Infinity' }].map((wrong) =>
          aStep(here, wrong),
        ),
      ],
    },
    { constraint: 'filled_text_ck', table: 'concord.journal', by: { trace_id: empty } },
    {
      constraint: 'journal_agent_step_ck',
      table: 'concord.journal',
      rows: '[EVT-07]',
      by: ({ here }) => ({ ...aStep(here, {}), agent_run_id: null }),
    },
    {
      constraint: 'count_from_zero_ck',
      table: 'concord.journal',
      by: ({ here }) => ({ ...aStep(here, {}), step_index: -1 }),
    },
    { constraint: 'finite_time_ck', table: 'concord.journal', by: forever },
    {
      constraint: 'journal_agent_ix',
      table: 'concord.journal',
      rows: '[EVT-08]',
      given: ({ here }) => aStep(here, {}),
      by: ({ here }) => aStep(here, {}),
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
