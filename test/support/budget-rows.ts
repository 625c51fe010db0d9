/** Rows of budgets that the schema accepts. */
import { randomUUID } from 'node:crypto'
import type { StoreRows } from './store-rows.ts'

export const budgetRows = {
  'concord.budget_accounts': ({ workspace, command }: StoreRows) => ({
    account_id: randomUUID(),
    workspace_id: workspace,
    command_id: command,
    limit_units: '50',
    created_at: '2026-05-01Z',
  }),
  'concord.budget_entries': ({ workspace, account }: StoreRows) => ({
    account_id: account,
    workspace_id: workspace,
    kind: 'reserved',
    key: randomUUID(),
    reserved_change: '1.5',
    created_at: '2026-05-01Z',
  }),
  'concord.model_quarantines': ({ workspace, command, account }: StoreRows) => ({
    quarantine_id: randomUUID(),
    workspace_id: workspace,
    model: randomUUID(),
    command_id: command,
    account_id: account,
    key: 'turn:1',
    excess_units: '0.5',
    created_at: '2026-05-01Z',
  }),
} as const
