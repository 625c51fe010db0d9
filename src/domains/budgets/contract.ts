/** The API shape of this room: the view of an account. */
import { z } from 'zod'
import { idView, textField, timeView } from '#contract'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { formatMoney, zeroMoney } from '#kernel/money'
import { amountOf, freeOf, type StoredAccount } from './account.ts'
import type { StoredQuarantine } from './quarantine.ts'

const amount = (description: string) => z.string().meta({ example: '12.500000', description })

const summary = z.object({
  budget_id: idView('budget'),
  status: z.enum(['open', 'breached', 'closed']).meta({
    example: 'open',
    description: '`breached`: a call cost more than it had reserved.',
  }),
  limit_units: amount('What the work may cost.'),
  reserved_units: amount('The worst case of calls that have begun.'),
  spent_units: amount('What was spent, including closed children.'),
  carved_units: amount('The limits of its open children.'),
  excess_units: amount('What calls cost above their reservations.'),
  free_units: amount('What can still be reserved.'),
  created_at: timeView('When it was opened.'),
  closed_at: timeView('When its work ended.').nullable(),
})

export const budgetView = summary
  .extend({
    command_id: idView('command'),
    parent_budget_id: idView('budget', 'The account that its limit was carved out of.').nullable(),
    children: z.array(summary).meta({ description: 'At most 200, oldest first.' }),
  })
  .meta({ id: 'Budget', description: 'What the work of a command may cost, and what it has cost so far.' })

export function toBudgetView(account: StoredAccount, children: readonly StoredAccount[]): z.infer<typeof budgetView> {
  const { parent_account_id: parent } = account
  return {
    ...toSummary(account),
    command_id: encodeId('command', account.command_id),
    parent_budget_id: parent && encodeId('budget', parent),
    children: children.map(toSummary),
  }
}

function toSummary(account: StoredAccount): z.infer<typeof summary> {
  const { closed_at } = account
  const excess = amountOf(account.excess_units)
  return {
    budget_id: encodeId('budget', account.account_id),
    status: excess > 0n ? 'breached' : closed_at ? 'closed' : 'open',
    limit_units: formatMoney(amountOf(account.limit_units)),
    reserved_units: formatMoney(amountOf(account.reserved_units)),
    spent_units: formatMoney(amountOf(account.spent_units)),
    carved_units: formatMoney(amountOf(account.carved_units)),
    excess_units: formatMoney(excess),
    free_units: formatMoney(closed_at ? zeroMoney : freeOf(account)),
    created_at: formatInstant(account.created_at),
    closed_at: closed_at && formatInstant(closed_at),
  }
}

export const quarantineView = z
  .object({
    model: z.string().meta({ example: 'writer', description: 'The name of the model in the project.' }),
    budget_id: idView('budget'),
    command_id: idView('command'),
    excess_units: amount('What the call cost above its reservation.'),
    created_at: timeView('Since when the model is in quarantine.'),
    lifted_at: timeView('When it was lifted.').nullable(),
  })
  .meta({
    id: 'ModelQuarantine',
    description: 'A model that is not called, because a call cost more than it had reserved.',
  })

export const quarantineListView = z.object({ items: z.array(quarantineView) }).meta({ id: 'ModelQuarantines' })

export const liftQuarantineBody = z
  .strictObject({
    model: textField(200, { charsMin: 1 }).meta({ example: 'writer' }),
    reason: textField(500, { charsMin: 1 }).meta({ example: 'The prices of the model are corrected.' }),
  })
  .meta({ id: 'LiftModelQuarantine' })

export function toQuarantineView(row: StoredQuarantine): z.infer<typeof quarantineView> {
  return {
    model: row.model,
    budget_id: encodeId('budget', row.account_id),
    command_id: encodeId('command', row.command_id),
    excess_units: formatMoney(amountOf(row.excess_units)),
    created_at: formatInstant(row.created_at),
    lifted_at: row.lifted_at && formatInstant(row.lifted_at),
  }
}
