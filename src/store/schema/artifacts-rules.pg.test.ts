/** Every rule of artifacts, broken once. */
import { breakEveryRule } from '#test/broken-rows'

const table = 'concord.artifacts'
const same = '00000000-0000-7000-8000-000000000001'
const sum = (digit: string) => digit.repeat(64)

breakEveryRule(
  [table],
  [
    {
      constraint: 'artifacts_idempotency_key_uq',
      table,
      rows: '[ART-05]',
      given: { idempotency_key: 'k1' },
      by: { idempotency_key: 'k1' },
    },
    {
      constraint: 'artifacts_superseded_by_uq',
      table,
      given: ({ here }) => ({ status: 'superseded', superseded_by: here.artifact }),
      by: ({ here }) => ({ status: 'superseded', superseded_by: here.artifact }),
    },
    {
      constraint: 'artifacts_command_fk',
      table,
      rows: '[ART-01]',
      by: ({ elsewhere }) => ({ command_id: elsewhere.command }),
    },
    {
      constraint: 'artifacts_domain_effect_fk',
      table,
      by: ({ elsewhere }) => ({ domain_effect_id: elsewhere.effect }),
    },
    { constraint: 'artifacts_agent_run_fk', table, by: ({ elsewhere }) => ({ agent_run_id: elsewhere.agent }) },
    { constraint: 'artifacts_swarm_run_fk', table, by: ({ elsewhere }) => ({ swarm_run_id: elsewhere.swarm }) },
    {
      constraint: 'artifacts_superseded_by_fk',
      table,
      by: ({ elsewhere }) => ({ superseded_by: elsewhere.artifact }),
    },
    { constraint: 'artifacts_superseded_by_ck', table, by: { artifact_id: same, superseded_by: same } },
    { constraint: 'artifacts_superseded_ck', table, by: { status: 'superseded' } },
    { constraint: 'artifacts_published_to_ck', table, by: { status: 'published' } },
    { constraint: 'artifacts_held_ck', table, by: { status: 'archived', hold_reason: 'a court asked' } },
    { constraint: 'artifacts_removed_ck', table, by: { location: `removed:${sum('a')}` } },
    { constraint: 'artifact_status_ck', table, rows: '[ART-03] [PER-10]', by: { status: 'deleted' } },
    { constraint: 'artifact_visibility_ck', table, by: { visibility: 'public' } },
    {
      constraint: 'artifact_location_ck',
      table,
      rows: '[ART-04]',
      by: [
        { location: '' },
        { location: '/tmp/report.txt' },
        { location: `disk:${sum('A')}` },
        { location: `data:text/plain;base64,${'A'.repeat(20_000)}` },
      ],
    },
    { constraint: 'content_checksum_ck', table, by: [{ checksum: sum('a') }, { checksum: `md5:${sum('a')}` }] },
    { constraint: 'count_from_zero_ck', table, by: { size_bytes: -1 } },
    {
      constraint: 'filled_text_ck',
      table,
      by: [
        { artifact_type: '' },
        { created_by: '' },
        { idempotency_key: '' },
        { content_type: '' },
        { published_to: '' },
        { hold_reason: '' },
      ],
    },
    { constraint: 'object_json_ck', table, by: [{ metadata: '[]' }, { lineage: 'null' }] },
    { constraint: 'finite_time_ck', table, by: [{ created_at: 'infinity' }, { retain_until: '-infinity' }] },
    { constraint: 'count_from_one_ck', table, by: { version: 0 } },
    { constraint: 'list_json_ck', table, by: { publications: '{}' } },
  ],
)
