/** The refusals of budgets: each code with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

export const budgetRefusals = {
  'budgets.account.exhausted': ['conflict', 'Ask for a higher limit, or reserve less.'],
  'budgets.account.capped': [
    'conflict',
    'Give the task of the mission a higher max_cost, and raise the budget of the mission if it lacks that.',
  ],
  'budgets.account.closed': ['conflict', 'The work of this account has ended. Use the account of work that runs.'],
  'budgets.account.has_children': ['conflict', 'Close the accounts of its children first.'],
  'budgets.model.quarantined': [
    'conflict',
    'Correct the prices and limits of the model, then let an administrator lift it.',
  ],
  'budgets.quarantine.not_found': ['not_found', 'GET /model-quarantines lists the models in quarantine.'],
  'budgets.key.reused': ['conflict', 'Use a new key for another call or another amount.'],
  'budgets.reservation.not_found': ['conflict', 'Reserve the worst case before the call, then settle it.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    budgets: typeof budgetRefusals
  }
}
