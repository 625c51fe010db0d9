/** Budgets: what the work of a command may cost. */
import { idField } from '#contract'
import { byPerson } from '#kernel/actor'
import {
  budgetView,
  liftQuarantine,
  liftQuarantineBody,
  listChildren,
  listQuarantines,
  quarantineListView,
  quarantineView,
  readAccount,
  toBudgetView,
  toQuarantineView,
} from '#domains/budgets'
import { mayReadCommand, readCommand } from '#domains/commands'
import { accept, refuse } from '#kernel/refusal'
import { scoped } from '#store'
import type { ApiDeps } from './api-deps.ts'
import { resource, routes, shown } from './resource.ts'

const { get, post } = resource<Pick<ApiDeps, 'db' | 'now' | 'newId'>>('budgets')

export const budgetRoutes = routes({
  getBudget: get('/budgets/{budget_id}', {
    summary: 'Get a budget with its limit, reservations, cost and children',
    description:
      'The budget of an agent run has the digits of the id of the run. Everybody who may read the command may read it.',
    role: 'reader',
    agents: true,
    params: { budget_id: idField('budget') },
    answers: { 200: ['The budget.', budgetView] },
    problems: [400, 404],
    async handle({ deps, principal, workspaceId, params: { budget_id: accountId } }) {
      const scope = scoped(deps.db, workspaceId)
      const account = await scope.read((tx) => readAccount(tx, workspaceId, accountId))
      if (!account.ok) return account
      const found = await readCommand(deps.db, workspaceId, account.value.command_id)
      if (!found.ok || !mayReadCommand(principal, found.value.command))
        return refuse('row.not_found', 'There is no such budget.')
      const children = await scope.read((tx) => listChildren(tx, account.value))
      return accept(toBudgetView(account.value, children))
    },
  }),
  listModelQuarantines: get('/model-quarantines', {
    summary: 'List the models that are not called, because a call cost more than it had reserved',
    role: 'reader',
    answers: { 200: ['The models in quarantine, oldest first, at most 500.', quarantineListView] },
    handle: async ({ deps, workspaceId }) =>
      accept({ items: (await listQuarantines(deps.db, workspaceId)).map(toQuarantineView) }),
  }),
  liftModelQuarantine: post('/model-quarantines/lift', {
    summary: 'Allow calls of a model again',
    role: 'admin',
    body: [liftQuarantineBody, 'The model, and the reason for the audit.'],
    answers: { 200: ['The quarantine that was lifted.', quarantineView] },
    problems: [404],
    handle: ({ deps, principal, traceId, workspaceId, body: { model, reason } }) =>
      shown(liftQuarantine(deps, byPerson(principal, traceId), { workspaceId, model, reason }), toQuarantineView),
  }),
})
