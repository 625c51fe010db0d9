/** Every rule of connector_invocations, broken once. */
import { breakEveryRule } from '#test/broken-rows'

const table = 'concord.connector_invocations'
const done = { status: 'succeeded', completed_at: '2026-05-01Z' }
const modelCall = 'agent:00000000-0000-7000-8000-000000000001:model:1:1'
const failed = { status: 'failed', completed_at: '2026-05-01Z' }

breakEveryRule(
  [table],
  [
    {
      constraint: 'connector_invocations_command_fk',
      table,
      rows: '[CON-07]',
      by: ({ elsewhere }) => ({ command_id: elsewhere.command }),
    },
    {
      constraint: 'connector_invocations_domain_effect_fk',
      table,
      by: ({ elsewhere }) => ({ domain_effect_id: elsewhere.effect }),
    },
    {
      constraint: 'connector_invocation_status_ck',
      table,
      rows: '[PER-10]',
      by: [{ status: 'queued' }, { status: 'running' }],
    },
    {
      constraint: 'connector_invocations_completed_at_ck',
      table,
      by: [{ status: 'succeeded' }, { completed_at: '2026-05-01Z' }],
    },
    {
      constraint: 'connector_invocations_error_class_ck',
      table,
      by: [failed, { ...done, error_class: 'timeout' }],
    },
    {
      constraint: 'connector_invocations_model_try_uq',
      table,
      given: { idempotency_key: modelCall, attempt: 1 },
      by: { idempotency_key: modelCall, attempt: 1 },
    },
    { constraint: 'error_class_ck', table, by: { ...failed, error_class: 'oops' } },
    {
      constraint: 'filled_text_ck',
      table,
      by: [{ connector_name: '' }, { operation: '' }, { idempotency_key: '' }],
    },
    { constraint: 'object_json_ck', table, by: [{ request_payload: '[]' }] },
    { constraint: 'count_from_zero_ck', table, by: { latency_ms: -1 } },
    { constraint: 'count_from_one_ck', table, by: { attempt: 0 } },
    {
      constraint: 'finite_time_ck',
      table,
      by: [{ created_at: 'infinity' }, { ...done, completed_at: 'infinity' }],
    },
  ],
)

const definitions = 'concord.connector_definitions'
const approved = {
  approved_definition: {},
  approved_hash: 'sha256:1',
  approved_by: 'ada',
  approved_at: '2026-05-01Z',
}

breakEveryRule(
  [definitions],
  [
    {
      constraint: 'connector_definitions_pk',
      table: definitions,
      by: {},
    },
    {
      constraint: 'connector_definitions_workspace_fk',
      table: definitions,
      by: { workspace_id: '00000000-0000-4000-8000-000000000000' },
    },
    {
      constraint: 'connector_definitions_approved_ck',
      table: definitions,
      by: [{ approved_hash: 'sha256:1' }, { ...approved, operation: 'other', approved_by: null }],
    },
    {
      constraint: 'filled_text_ck',
      table: definitions,
      by: [
        { connector_name: '' },
        { operation: '' },
        { seen_hash: '' },
        { ...approved, approved_hash: '' },
        { ...approved, approved_by: '' },
      ],
    },
    {
      constraint: 'object_json_ck',
      table: definitions,
      by: [{ seen_definition: '[]' }, { ...approved, approved_definition: '[]' }],
    },
    {
      constraint: 'finite_time_ck',
      table: definitions,
      by: [{ seen_at: 'infinity' }, { ...approved, approved_at: 'infinity' }],
    },
  ],
)

const reads = 'concord.notification_reads'

breakEveryRule(
  [reads],
  [
    { constraint: 'notification_reads_pk', table: reads, by: {} },
    {
      constraint: 'notification_reads_invocation_fk',
      table: reads,
      by: ({ elsewhere }) => ({ connector_invocation_id: elsewhere.invocation }),
    },
    {
      constraint: 'notification_reads_user_fk',
      table: reads,
      by: { user_id: '00000000-0000-4000-8000-000000000000' },
    },
    { constraint: 'finite_time_ck', table: reads, by: { read_at: 'infinity', user_id: null } },
  ],
)
