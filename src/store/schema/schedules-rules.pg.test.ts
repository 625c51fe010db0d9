/** Every rule of command_schedules, broken once. */
import { breakEveryRule } from '#test/broken-rows'

const table = 'schedules.command_schedules'
const empty = ''

breakEveryRule(
  [table],
  [
    { constraint: 'command_schedules_name_uq', table, given: { name: 'nightly' }, by: { name: 'nightly' } },
    {
      constraint: 'command_schedules_workspace_fk',
      table,
      by: { workspace_id: '00000000-0000-7000-8000-000000000001' },
    },
    {
      constraint: 'command_schedules_last_command_fk',
      table,
      by: ({ elsewhere }) => ({ last_due_at: '2026-05-01Z', last_command_id: elsewhere.command }),
    },
    {
      constraint: 'command_schedules_creator_ck',
      table,
      by: [{ created_role: 'system' }, { origin: 'catalog' }],
    },
    {
      constraint: 'command_schedules_last_ck',
      table,
      by: ({ here }) => [{ last_command_id: here.command }, { last_refusal: 'ingress_not_allowed' }],
    },
    { constraint: 'origin_ck', table, by: { origin: 'person ' } },
    { constraint: 'overlap_ck', table, by: { overlap: 'wait' } },
    { constraint: 'misfire_ck', table, by: { misfire: 'some' } },
    { constraint: 'jitter_ck', table, by: [{ jitter_ms: -1 }, { jitter_ms: 3_600_001 }] },
    { constraint: 'creator_role_ck', table, by: { created_role: 'reader' } },
    {
      constraint: 'filled_text_ck',
      table,
      by: [
        { name: empty },
        { command_type: empty },
        { cron: empty },
        { time_zone: empty },
        { queue: empty },
        { created_by: empty },
      ],
    },
    { constraint: 'object_json_ck', table, by: { payload: '[]' } },
    {
      constraint: 'finite_time_ck',
      table,
      by: [
        { created_at: 'infinity' },
        { updated_at: 'infinity' },
        { removed_at: 'infinity' },
        { last_due_at: '-infinity' },
      ],
    },
  ],
)
