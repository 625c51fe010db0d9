/**
 * A run whose account cannot pay for the next call asks for more. Concord makes the call of the tool in the place of the agent, so that a question to
 * people takes the path of every other call: it is a command, it survives a crash, and its outcome is an observation.
 */
import { z } from 'zod'
import { amountOf, freeOf, raiseLimit, readAccount, readRoom } from '#domains/budgets'
import { ask, defineCommand, defineEffect, type Definition, EffectFailure, RAISE_BUDGET } from '#domains/commands'
import { formatMoney, type Money, parseMoney } from '#kernel/money'
import type { Sql } from '#store'
import { type AnswerContent, observationOf, type StoredAgentMessage } from './agent-message.ts'
import type { StoredAgentRun } from './agent-run.ts'
import type { AgentDeps } from './deps.ts'
import { type AskedModel, callId } from './models/ask-model.ts'
import { findRunOfCall } from './tools.ts'

const amount_units = z
  .string()
  .refine((text) => parseMoney(text).ok, 'an amount such as "12.50"')
  .meta({ example: '12.50' })

/** `deps` is called by the first call, because the catalog opens before the room. */
export function raiseBudgetDefinitions(deps: () => AgentDeps): readonly Definition[] {
  const raise = defineEffect('agent.raise_budget', {
    input: z.object({ amount_units }),
    class: 'keyed',
    outward: false,
    async do({ input, workspaceId, commandId, requestedBy, traceId, alongside }) {
      const { db, now } = deps().commands
      const [payer] = await db.run(findRunOfCall, [commandId])
      const accountId = payer?.budget_account_id
      if (!accountId) throw new EffectFailure('validation_error', 'There is no budget to raise.', 'no')
      alongside(async (tx) => {
        const by = { id: requestedBy, kind: 'user', traceId }
        const more = { workspaceId, accountId, key: commandId, amount: amountOf(input.amount_units), at: now() }
        const raised = await raiseLimit(tx, by, more)
        if (!raised.ok) throw new EffectFailure('validation_error', raised.reason, 'no')
      })
      return { amount_units: input.amount_units }
    },
  })
  return defineCommand(RAISE_BUDGET, {
    description:
      'Asks an operator to raise the budget of the run. Concord asks by itself when a call cannot be paid for.',
    input: z.object({ amount_units }),
    policy: ({ amount_units: units }) => ask(1, 'operator', `The run needs ${units} units more.`),
    steps: (input) => [raise(input)],
    uses: [raise],
    task: { ingress_types: ['agent_action'] },
  }).definitions
}

/** A call that the account of the run cannot pay for. */
export type Exhausted = Extract<AskedModel, { t: 'exhausted' }>

/**
 * The answer that asks for as much again as the limit, or for what the call lacks if that is more. Undefined: no account pays for the run, or
 * its command may not cost what the call lacks, so that nobody can say yes.
 */
export async function askForRaise(
  sql: Sql,
  run: StoredAgentRun,
  turn: number,
  { reason, neededUnits }: Exhausted,
): Promise<AnswerContent | undefined> {
  if (run.budget_account_id === null) return undefined
  const account = await readAccount(sql, run.workspace_id, run.budget_account_id)
  if (!account.ok) return undefined
  const limit = amountOf(account.value.limit_units)
  const room = await readRoom(sql, account.value)
  const free = freeOf(account.value)
  const lacking = (amountOf(neededUnits) - free) as Money
  if (lacking > room) return undefined
  const wanted = lacking > limit ? lacking : limit
  const amount = wanted < room ? wanted : room
  const text = `${reason} ${formatMoney(free)} of ${formatMoney(limit)} units are free.`
  const payload = { amount_units: formatMoney(amount) }
  const call = {
    id: callId(turn, 0),
    actionType: 'request_approval' as const,
    toolName: RAISE_BUDGET,
    payload,
    reason: text,
  }
  return { text: null, calls: [call], final: null }
}

/** The last answer was the question for more, and people said no. Only Concord asks questions; an answer that was erased is not known. */
export function isRaiseRefused([answer, observed]: readonly StoredAgentMessage[]): boolean {
  if (answer?.message_type !== 'question' || !observed || observed.content === '') return false
  return !['approved', 'done'].includes(observationOf(observed).decision)
}
