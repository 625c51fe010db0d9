/** Every rule of commands, their dependencies and their effects, broken once. */
import { breakEveryRule } from '#test/broken-rows'

const forever = { created_at: 'infinity' }
const empty = ''
const same = '00000000-0000-7000-8000-000000000001'

breakEveryRule(
  ['concord.commands', 'concord.command_dependencies', 'concord.domain_effects'],
  [
    {
      constraint: 'commands_agent_run_fk',
      table: 'concord.commands',
      by: ({ elsewhere }) => ({ ingress: 'agent_action', agent_run_id: elsewhere.agent }),
    },
    {
      constraint: 'commands_agent_run_ck',
      table: 'concord.commands',
      by: ({ here }) => ({ ingress: 'user_request', agent_run_id: here.agent }),
    },
    { constraint: 'commands_workspace_fk', table: 'concord.commands', by: { workspace_id: same } },
    {
      constraint: 'commands_idempotency_key_uq',
      table: 'concord.commands',
      given: { idempotency_key: 'k1', request_fingerprint: 'f' },
      by: { idempotency_key: 'k1', request_fingerprint: 'f' },
    },
    {
      constraint: 'commands_contract_key_uq',
      table: 'concord.commands',
      rows: '[H1]',
      given: { contract_key: 'c1', request_fingerprint: 'f' },
      by: { contract_key: 'c1', idempotency_key: 'own', request_fingerprint: 'f' },
    },
    {
      constraint: 'commands_runtime_workflow_id_ck',
      table: 'concord.commands',
      by: ({ here }) => ['command:1', 'command', `command:${here.command}`].map((id) => ({ runtime_workflow_id: id })),
    },
    {
      constraint: 'command_status_ck',
      table: 'concord.commands',
      rows: '[PER-10]',
      by: [{ status: 'done' }, { status: 'Created' }, { status: empty }],
    },
    { constraint: 'ingress_ck', table: 'concord.commands', rows: '[PER-10] [PRM-11]', by: { ingress: 'email' } },
    {
      constraint: 'cancellation_mode_ck',
      table: 'concord.commands',
      rows: '[CAN-01]',
      by: [{ cancellation_mode: 'immediate' }, { cancellation_mode: 'checkpoint_then_stop' }],
    },
    { constraint: 'error_class_ck', table: 'concord.commands', rows: '[PER-10]', by: { error_class: 'oops' } },
    {
      constraint: 'commands_completed_at_ck',
      table: 'concord.commands',
      by: [
        { status: 'succeeded' },
        { status: 'failed' },
        { status: 'cancelled' },
        { status: 'expired' },
        { status: 'compensated' },
        { status: 'running', completed_at: '2026-05-01Z' },
        { status: 'compensating', completed_at: '2026-05-01Z' },
      ],
    },
    {
      constraint: 'commands_request_fingerprint_ck',
      table: 'concord.commands',
      by: [{ idempotency_key: 'k2' }, { contract_key: 'c2' }],
    },
    {
      constraint: 'filled_text_ck',
      table: 'concord.commands',
      by: [
        { command_type: empty },
        { requested_by: empty },
        { payload_hash: empty },
        { idempotency_key: empty, request_fingerprint: 'f' },
        { contract_key: empty, request_fingerprint: 'f' },
        { runtime_workflow_id: empty },
      ],
    },
    {
      constraint: 'object_json_ck',
      table: 'concord.commands',
      by: [{ payload: '[]' }, { payload: 'null' }, { context: '"x"' }],
    },
    { constraint: 'count_from_one_ck', table: 'concord.commands', by: { attempt: 0 } },
    {
      constraint: 'commands_turn_ck',
      table: 'concord.commands',
      by: [{ turn_token: same }, { turn_until: '2026-05-01Z' }],
    },
    {
      constraint: 'finite_time_ck',
      table: 'concord.commands',
      by: [
        forever,
        { updated_at: 'infinity' },
        { run_after: 'infinity' },
        { status: 'failed', completed_at: 'infinity' },
        { turn_token: same, turn_until: 'infinity' },
      ],
    },

    { constraint: 'command_dependencies_pk', table: 'concord.command_dependencies', rows: '[DEP-01]', by: {} },
    {
      constraint: 'command_dependencies_child_fk',
      table: 'concord.command_dependencies',
      rows: '[DEP-01]',
      by: ({ elsewhere }) => ({ child_command_id: elsewhere.command }),
    },
    {
      constraint: 'command_dependencies_parent_fk',
      table: 'concord.command_dependencies',
      rows: '[DEP-01]',
      by: ({ elsewhere }) => ({ parent_command_id: elsewhere.command }),
    },
    {
      constraint: 'command_status_ck',
      table: 'concord.command_dependencies',
      by: { required_status: 'done' },
    },
    {
      constraint: 'command_dependencies_self_ck',
      table: 'concord.command_dependencies',
      by: ({ here }) => ({ parent_command_id: here.command }),
    },
    { constraint: 'finite_time_ck', table: 'concord.command_dependencies', by: forever },

    {
      constraint: 'domain_effects_command_fk',
      table: 'concord.domain_effects',
      rows: '[EFF-02]',
      by: ({ elsewhere }) => ({ command_id: elsewhere.command }),
    },
    {
      constraint: 'domain_effects_compensates_fk',
      table: 'concord.domain_effects',
      rows: '[EFF-02]',
      by: ({ elsewhere }) => ({ compensates_effect_id: elsewhere.effect }),
    },
    {
      constraint: 'effect_status_ck',
      table: 'concord.domain_effects',
      rows: '[EFF-03]',
      by: [{ status: 'skipped' }, { status: 'running' }, { status: 'compensated' }, { status: 'cancelled' }],
    },
    {
      constraint: 'reversibility_ck',
      table: 'concord.domain_effects',
      rows: '[PER-10]',
      by: { reversibility: 'maybe' },
    },
    {
      constraint: 'error_class_ck',
      table: 'concord.domain_effects',
      rows: '[PER-10]',
      by: { error_class: 'oops' },
    },
    {
      constraint: 'domain_effects_completed_at_ck',
      table: 'concord.domain_effects',
      by: [{ status: 'succeeded' }, { status: 'failed' }, { status: 'executing', completed_at: '2026-05-01Z' }],
    },
    {
      constraint: 'filled_text_ck',
      table: 'concord.domain_effects',
      by: [{ effect_type: empty }, { idempotency_key: empty }],
    },
    { constraint: 'object_json_ck', table: 'concord.domain_effects', by: { effect_payload: '[]' } },
    {
      constraint: 'count_from_zero_ck',
      table: 'concord.domain_effects',
      by: [{ declaration_order: -1 }, { attempt: -1 }],
    },
    { constraint: 'count_from_one_ck', table: 'concord.domain_effects', by: { max_attempts: 0 } },
    {
      constraint: 'domain_effects_self_ck',
      table: 'concord.domain_effects',
      by: { domain_effect_id: same, compensates_effect_id: same },
    },
    {
      constraint: 'finite_time_ck',
      table: 'concord.domain_effects',
      by: [forever, { run_after: 'infinity' }, { status: 'failed', completed_at: 'infinity' }],
    },
    {
      constraint: 'idx_domain_effects_idem',
      table: 'concord.domain_effects',
      rows: '[EFF-02]',
      given: { idempotency_key: 'e1', status: 'failed', completed_at: '2026-05-01Z' },
      by: { idempotency_key: 'e1' },
    },
  ],
)
