/** Every rule of budget accounts and entries, broken once. */
import { breakEveryRule } from '#test/broken-rows'

const account = 'concord.budget_accounts'
const entry = 'concord.budget_entries'
const quarantine = 'concord.model_quarantines'
const same = '00000000-0000-7000-8000-000000000001'
const noCost = ['-1', 'NaN', 'Infinity', '0.0000001', '1000000000']
const columns = (names: readonly string[], values: readonly string[]) =>
  names.flatMap((name) => values.map((value) => ({ [name]: value })))

breakEveryRule(
  [account, entry, quarantine],
  [
    {
      constraint: 'budget_accounts_command_fk',
      table: account,
      by: ({ elsewhere }) => ({ command_id: elsewhere.command }),
    },
    {
      constraint: 'budget_accounts_parent_fk',
      table: account,
      by: ({ elsewhere }) => ({ parent_account_id: elsewhere.account }),
    },
    { constraint: 'budget_accounts_self_ck', table: account, by: { account_id: same, parent_account_id: same } },
    {
      constraint: 'budget_accounts_limit_ck',
      table: account,
      by: [{ reserved_units: 51 }, { spent_units: 51 }, { carved_units: 51 }, { reserved_units: 25, spent_units: 26 }],
    },
    {
      constraint: 'budget_accounts_closed_ck',
      table: account,
      by: [
        { reserved_units: 1, closed_at: '2026-05-01Z' },
        { carved_units: 1, closed_at: '2026-05-01Z' },
      ],
    },
    { constraint: 'cost_limit_ck', table: account, by: columns(['limit_units'], ['0', ...noCost]) },
    {
      constraint: 'cost_units_ck',
      table: account,
      by: columns(['reserved_units', 'spent_units', 'carved_units'], noCost),
    },
    { constraint: 'cost_excess_ck', table: account, by: columns(['excess_units'], noCost.slice(0, -1)) },
    {
      constraint: 'finite_time_ck',
      table: account,
      by: [{ created_at: 'infinity' }, { closed_at: 'infinity' }],
    },
    {
      constraint: 'budget_entries_account_fk',
      table: entry,
      by: ({ elsewhere }) => ({ account_id: elsewhere.account }),
    },
    { constraint: 'budget_entry_kind_ck', table: entry, by: { kind: 'spent' } },
    { constraint: 'filled_text_ck', table: entry, by: { key: '' } },
    {
      constraint: 'cost_change_ck',
      table: entry,
      by: columns(
        ['limit_change', 'reserved_change', 'spent_change', 'carved_change', 'excess_change'],
        ['NaN', 'Infinity', '-Infinity', '0.0000001'],
      ),
    },
    { constraint: 'finite_time_ck', table: entry, by: { created_at: 'infinity' } },
    {
      constraint: 'model_quarantines_open_uq',
      table: quarantine,
      given: { model: 'writer' },
      by: { model: 'writer' },
    },
    {
      constraint: 'model_quarantines_command_fk',
      table: quarantine,
      by: ({ elsewhere }) => ({ command_id: elsewhere.command }),
    },
    {
      constraint: 'model_quarantines_account_fk',
      table: quarantine,
      by: ({ elsewhere }) => ({ account_id: elsewhere.account }),
    },
    {
      constraint: 'model_quarantines_lifted_ck',
      table: quarantine,
      by: [{ lifted_at: '2026-05-01Z' }, { lifted_by: 'user:ada', lift_reason: 'corrected' }],
    },
    {
      constraint: 'filled_text_ck',
      table: quarantine,
      by: [
        { model: '' },
        { key: '' },
        { lifted_at: '2026-05-01Z', lifted_by: '', lift_reason: 'corrected' },
        { lifted_at: '2026-05-01Z', lifted_by: 'user:ada', lift_reason: '' },
      ],
    },
    { constraint: 'cost_excess_ck', table: quarantine, by: { excess_units: '-1' } },
    {
      constraint: 'finite_time_ck',
      table: quarantine,
      by: [{ created_at: 'infinity' }, { lifted_at: 'infinity', lifted_by: 'user:ada', lift_reason: 'corrected' }],
    },
  ],
)
