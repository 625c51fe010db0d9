/** `concord budgets`: shows what work may cost and what it has cost. */
import type { budgetView, quarantineListView, quarantineView } from '#domains/budgets'
import { idPrefixes } from '#kernel/ids'
import { showLine } from '#kernel/visible-text'
import { askServer, pathOf } from './client.ts'
import { formatFacts } from './layout.ts'
import { noun, table, verb, type ViewOf, type When } from './noun.ts'
import type { Terminal } from './terminal.ts'
import { sayTime } from './times.ts'

type QuarantineView = ViewOf<typeof quarantineView>
type BudgetView = ViewOf<typeof budgetView>

const ID = 'budget_0197f3b2c4d57a8e9b0c1d2e3f405181'
/** A run and its budget have the same digits. */
const OF_RUN = new RegExp(`^(?:${idPrefixes.agent_run}|${idPrefixes.swarm_run})_(?=[0-9a-f]{32}$)`)

export const budgets = noun('show the budgets of agents, lift the quarantine of a model', (cli) => ({
  'show <id>': verb({
    description: 'show a budget by its id or that of its run: limit, reserved, spent, and the parts of its children',
    examples: [`concord budgets show ${ID}`],
    ask: (id: string) =>
      askServer<BudgetView>(cli, 'GET', pathOf('budget', id.replace(OF_RUN, `${idPrefixes.budget}_`))),
    say: (budget) => formatBudget(cli.terminal, budget),
  }),
  quarantines: verb({
    description: 'list the models that are not called, because a call cost more than it had reserved',
    examples: ['concord budgets quarantines'],
    ask: () => askServer<ViewOf<typeof quarantineListView>>(cli, 'GET', '/model-quarantines'),
    say: ({ items }) => (items.length === 0 ? ['', 'There are none.\n'] : table(cli.terminal, ofModels, items)),
  }),
  'lift <model>': verb({
    description: 'allow calls of a model again, after its prices and limits are corrected',
    required: [['--reason <text>', 'for the audit']],
    examples: ['concord budgets lift writer --reason "the price of output is corrected"'],
    ask: (model: string, { reason }: { reason: string }) =>
      askServer<QuarantineView>(cli, 'POST', '/model-quarantines/lift', { model, reason }),
    say: ({ model }) => `${showLine(model)} may be called again\n`,
  }),
}))

const columns = {
  budget: ({ budget_id }: BudgetView['children'][number]) => budget_id,
  status: ({ status }: BudgetView['children'][number]) => status,
  limit: ({ limit_units }: BudgetView['children'][number]) => limit_units,
  spent: ({ spent_units }: BudgetView['children'][number]) => spent_units,
  // A closed budget has given back what was left.
  free: ({ free_units, closed_at }: BudgetView['children'][number]) => (closed_at ? '' : free_units),
}

const ofModels = {
  model: ({ model }: QuarantineView) => model,
  excess: ({ excess_units }: QuarantineView) => excess_units,
  since: ({ created_at }: QuarantineView, when: When) => when(created_at),
  command: ({ command_id }: QuarantineView) => command_id,
}

function formatBudget(terminal: Terminal, budget: BudgetView): string {
  const isBreached = budget.status === 'breached'
  const facts = formatFacts(terminal, 8, [
    ['command', budget.command_id],
    ['part of', budget.parent_budget_id ?? ''],
    ['limit', budget.limit_units],
    ['reserved', budget.reserved_units],
    ['spent', budget.spent_units],
    ['children', budget.children.length > 0 ? `${budget.carved_units} set aside for open ones` : ''],
    ['excess', isBreached ? `${budget.excess_units} above the reservations of calls` : ''],
    ['free', budget.closed_at ? '' : budget.free_units],
    ['closed', budget.closed_at ? sayTime(terminal, budget.closed_at) : ''],
  ])
  const list = budget.children.length > 0 ? `\n${[table(terminal, columns, budget.children)].flat().join('')}` : ''
  return `${budget.budget_id}: ${budget.status}\n${facts}${list}`
}
