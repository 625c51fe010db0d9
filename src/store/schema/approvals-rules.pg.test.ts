/** Every rule of approvals, broken once. */
import { breakEveryRule } from '#test/broken-rows'

const forever = { created_at: 'infinity' }
const empty = ''
const same = '00000000-0000-7000-8000-000000000001'

breakEveryRule(
  ['concord.approvals'],
  [
    {
      constraint: 'approvals_approved_for_ck',
      table: 'concord.approvals',
      by: { approved_for: ['user:bob'] },
    },
    {
      constraint: 'approvals_idempotency_key_uq',
      table: 'concord.approvals',
      given: { idempotency_key: 'a1' },
      by: { idempotency_key: 'a1' },
    },
    {
      constraint: 'approvals_command_fk',
      table: 'concord.approvals',
      rows: '[APR-01]',
      by: ({ elsewhere }) => ({ command_id: elsewhere.command }),
    },
    {
      constraint: 'approvals_superseded_by_fk',
      table: 'concord.approvals',
      by: ({ elsewhere }) => ({ superseded_by: elsewhere.approval }),
    },
    {
      constraint: 'approvals_domain_effect_fk',
      table: 'concord.approvals',
      by: ({ elsewhere }) => ({ domain_effect_id: elsewhere.effect }),
    },
    {
      constraint: 'approval_status_ck',
      table: 'concord.approvals',
      rows: '[PER-10]',
      by: [{ status: 'request_changes' }, { status: 'denied' }],
    },
    {
      constraint: 'approvals_decided_at_ck',
      table: 'concord.approvals',
      by: [
        { status: 'approved', decided_by: 'user:bob' },
        { status: 'rejected', decided_at: '2026-05-01Z' },
        { status: 'changes_requested' },
        { status: 'pending', decided_at: '2026-05-01Z', decided_by: 'user:bob' },
        { status: 'expired', decided_at: '2026-05-01Z', decided_by: 'user:bob' },
      ],
    },
    {
      constraint: 'approvals_in_time_ck',
      table: 'concord.approvals',
      by: ['2026-05-01T10:00Z', '2026-05-01T10:01Z'].map((decided_at) => ({
        status: 'approved',
        decided_by: 'user:bob',
        expires_at: '2026-05-01T10:00Z',
        decided_at,
      })),
    },
    {
      constraint: 'decider_ck',
      table: 'concord.approvals',
      by: ['agent:7', 'user:', 'system', empty].map((decided_by) => ({
        status: 'approved',
        decided_at: '2026-05-01Z',
        decided_by,
      })),
    },
    {
      constraint: 'approvals_self_decision_ck',
      table: 'concord.approvals',
      by: [
        { status: 'approved', decided_at: '2026-05-01Z', decided_by: 'user:ada' },
        { approved_by: ['user:bob', 'user:ada'] },
      ],
    },
    {
      constraint: 'approvals_quorum_ck',
      table: 'concord.approvals',
      by: [
        {
          approvals_required: 2,
          approved_by: ['user:bob'],
          status: 'approved',
          decided_at: '2026-05-01Z',
          decided_by: 'user:bob',
        },
      ],
    },
    {
      constraint: 'approvals_voters_ck',
      table: 'concord.approvals',
      by: [['agent:7'], ['user:bob', 'agent:7'], ['system']].map((approved_by) => ({ approved_by })),
    },
    { constraint: 'approvals_vote_key_ck', table: 'concord.approvals', by: { vote_key_is_agent: true } },
    { constraint: 'approvals_vote_key_fk', table: 'concord.approvals', by: { vote_key_id: same } },
    { constraint: 'approvals_reconcile_ck', table: 'concord.approvals', by: { approval_type: 'reconcile_effect' } },
    {
      constraint: 'approvals_superseded_by_ck',
      table: 'concord.approvals',
      by: { approval_id: same, superseded_by: same },
    },
    {
      constraint: 'filled_text_ck',
      table: 'concord.approvals',
      by: [
        { requested_by: empty },
        { approver: empty },
        { approval_type: empty },
        { payload_hash: empty },
        { idempotency_key: empty },
      ],
    },
    {
      constraint: 'object_json_ck',
      table: 'concord.approvals',
      by: [{ request_payload: '[]' }, { review_packet: 'null' }],
    },
    {
      constraint: 'finite_time_ck',
      table: 'concord.approvals',
      by: [
        forever,
        { expires_at: 'infinity' },
        { status: 'rejected', decided_by: 'user:bob', decided_at: '-infinity' },
      ],
    },
    { constraint: 'count_from_one_ck', table: 'concord.approvals', by: { approvals_required: 0 } },
  ],
)
