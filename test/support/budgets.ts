/** Budgets for tests: a workspace with a command, and what must be true of every account at any time. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { Money } from '#kernel/money'
import { parseMoney } from '#kernel/money'
import type { Sql } from '#store'
import { insertRow, insertStoreRows, rowsOf } from './store-rows.ts'
import { accepted } from './tenant.ts'

export const units = (text: string): Money => accepted(parseMoney(text))

export type BudgetPlace = { readonly workspaceId: string; readonly commandId: string }

export async function aBudgetPlace(sql: Sql): Promise<BudgetPlace> {
  const rows = await insertStoreRows(sql)
  const commandId = randomUUID()
  await insertRow(sql, 'concord.commands', { ...rowsOf['concord.commands'](rows), command_id: commandId })
  return { workspaceId: rows.workspace, commandId }
}

const UNSOUND = `
  select a.account_id from concord.budget_accounts a
   cross join lateral (
     select coalesce(sum(e.limit_change), 0) as limit_sum, coalesce(sum(e.reserved_change), 0) as reserved_sum,
            coalesce(sum(e.spent_change), 0) as spent_sum, coalesce(sum(e.carved_change), 0) as carved_sum,
            coalesce(sum(e.excess_change), 0) as excess_sum
       from concord.budget_entries e where e.account_id = a.account_id and e.workspace_id = a.workspace_id) e
   cross join lateral (
     select coalesce(sum(c.limit_units) filter (where c.closed_at is null), 0) as carved,
            coalesce(sum(c.spent_units) filter (where c.closed_at is not null), 0) as returned
       from concord.budget_accounts c where c.parent_account_id = a.account_id) c
   where a.command_id = any ($1)
     and ((e.limit_sum, e.reserved_sum, e.spent_sum, e.carved_sum, e.excess_sum)
          is distinct from (a.limit_units, a.reserved_units, a.spent_units, a.carved_units, a.excess_units)
       or a.reserved_units + a.spent_units + a.carved_units > a.limit_units
       or a.carved_units <> c.carved or a.spent_units < c.returned)`

/** The entries of every account give its balances, no account is above its limit, and limits of children are carved out exactly. */
export async function assertSound(sql: Sql, { commandId }: BudgetPlace): Promise<void> {
  assert.deepEqual(await sql.query(UNSOUND, [[commandId]]), [])
}
