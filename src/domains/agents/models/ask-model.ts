/**
 * Asks a model for a run: the worst case is reserved from the account of the run in a commit before the call, the call goes through the
 * gate, and the cost is settled in the commit that stores the answer.
 */
import { findLastTry, freeOf, readAccount, releaseCost, reserveCost, settleCost } from '#domains/budgets'
import type { ConnectorResult, Connectors } from '#domains/connectors'
import { type Actor, bySystem } from '#kernel/actor'
import { priceUsage, priceWorstCase } from '#kernel/agents/price'
import type { Clock } from '#kernel/clock'
import { formatMoney, type Money } from '#kernel/money'
import type { Decision } from '#kernel/refusal'
import { type Db, failpoint, type Sql, statement } from '#store'
import type { Rows } from '#store/rows'
import type { ModelAnswer, ModelRequest } from '../agent-runtime.ts'
import { callModel, worstOf } from './call-model.ts'
import type { ModelDefinition } from './model-connector.ts'
import type { ModelTerms } from './model-terms.ts'

type RunOfCall = Pick<Rows['concord.agent_runs'], 'agent_run_id' | 'workspace_id' | 'command_id' | 'budget_account_id'>

/** One call of a model in one turn of a run. */
type AskModel = {
  readonly run: RunOfCall
  readonly turn: number
  /** The number of this call in its turn, from 0. */
  readonly call: number
  readonly request: ModelRequest
  readonly signal: AbortSignal
  /** The last turn of the run: what was set aside for it may be used. */
  readonly isLast?: boolean
}

export type FailedModel = NonNullable<ConnectorResult['error']>

export type AskedModel =
  | {
      readonly t: 'answered'
      readonly answer: ModelAnswer
      readonly costUnits: string
      /** Joins the commit that stores the answer. */
      settle(tx: Sql): Promise<void>
    }
  /** `neededUnits` is what the call can cost. */
  | { readonly t: 'exhausted'; readonly reason: string; readonly neededUnits: string }
  | { readonly t: 'failed'; readonly error: FailedModel }

type ModelDeps = { readonly db: Db; readonly now: Clock; readonly connectors: Pick<Connectors, 'call'> }

/** The models of a project, by the names that agents ask for. */
export type Models = {
  readonly names: readonly string[]
  find(name: string): ModelTerms | undefined
  ask(asked: AskModel): Promise<AskedModel>
  /**
   * Sets aside, in the commit that begins a run, what its last turn may cost. Nothing is set aside if that is more than half of what is free: the run could hardly
   * make another call.
   */
  reserveLastTurn(tx: Sql, run: StartedRun): Promise<void>
}

export function openModels(definitions: readonly ModelDefinition[], deps: ModelDeps): Models {
  const byName = new Map(definitions.map(({ terms }) => [terms.name, terms]))
  return {
    names: [...byName.keys()],
    find: (name) => byName.get(name),
    ask: (asked) => ask(deps, byName.get(asked.request.model), asked),
    reserveLastTurn: (tx, run) => reserveLastTurn(tx, byName.get(String(run.model_config['model'])), run, deps.now()),
  }
}

type Begun = { readonly domain_effect_id: string; readonly trace_id: string; readonly last_attempt: number }

/** The effect that the command of the run executes, and the last try of this call that began. $1 workspace, $2 command, $3 key. */
const findBegun = statement<Begun>(
  'agents.find_begun_model_calls',
  `select e.domain_effect_id, c.context->>'trace_id' as trace_id,
     (select coalesce(max(i.attempt), 0)::int from concord.connector_invocations i where i.command_id = $2 and i.idempotency_key = $3) as last_attempt
   from concord.commands c
   join concord.domain_effects e on e.command_id = c.command_id and e.workspace_id = c.workspace_id
  where c.workspace_id = $1 and c.command_id = $2 and e.status = 'executing'
  order by e.declaration_order limit 1`,
)

async function ask(deps: ModelDeps, terms: ModelTerms | undefined, asked: AskModel): Promise<AskedModel> {
  const { run, turn, call, request, signal } = asked
  if (!terms) return refused(`There is no model ${request.model}.`)
  // The same for every attempt at this call: a provider that deduplicates answers it once.
  const key = `agent:${run.agent_run_id}:model:${turn}:${call}`
  const [begun] = await deps.db.run(findBegun, [run.workspace_id, run.command_id, key])
  if (!begun) return refused('The command of the run does not execute it.')
  const worst = priceWorstCase(terms.prices, worstOf(terms, request))
  const account = openReservation(deps, asked, bySystem(begun.trace_id), worst)
  const attempt = await account.nextTry(begun.last_attempt)
  const reserved = await account.reserve(attempt)
  if (reserved && !reserved.ok) {
    const isQuarantined = reserved.code === 'budgets.model.quarantined'
    return isQuarantined
      ? refused(reserved.reason)
      : { t: 'exhausted', reason: reserved.reason, neededUnits: formatMoney(worst) }
  }
  await failpoint('agents.cost_reserved')
  const called = await callModel(deps.connectors, request, {
    command_id: run.command_id,
    agent_run_id: run.agent_run_id,
    context: {
      workspace_id: run.workspace_id,
      domain_effect_id: begun.domain_effect_id,
      trace_id: begun.trace_id,
      attempt,
      idempotency_key: key,
      signal,
    },
  })
  if (!called.ok) {
    // The reservation belongs to the process that makes the call.
    if (called.error.is_taken) return { t: 'failed', error: called.error }
    if (called.error.happened === 'no') await account.release(attempt)
    else await account.settle(deps.db, attempt, worst)
    return { t: 'failed', error: called.error }
  }
  const cost = priceUsage(terms.prices, called.answer.usage)
  return {
    t: 'answered',
    answer: { ...called.answer, calls: called.answer.calls.map((each, at) => ({ ...each, id: callId(turn, at) })) },
    costUnits: formatMoney(cost),
    async settle(tx) {
      await account.settle(tx, attempt, cost)
      await failpoint('agents.cost_settled')
    },
  }
}

/** Unique in the run, whatever was erased of its conversation. */
export const callId = (turn: number, at: number) => `call_${turn}_${at}`

function refused(message: string): AskedModel {
  return { t: 'failed', error: { error_class: 'validation_error', message, happened: 'no' } }
}

/** How the reservations of all model calls of a run begin. */
export const modelKeyOf = (run: Pick<RunOfCall, 'agent_run_id'>) => `model:${run.agent_run_id}:`

/** The reservation for the last turn of a run. */
export const lastTurnKey = (run: Pick<RunOfCall, 'agent_run_id'>) => `last:${run.agent_run_id}`

type StartedRun = RunOfCall & { readonly model_config: Readonly<Record<string, unknown>> }

async function reserveLastTurn(tx: Sql, terms: ModelTerms | undefined, run: StartedRun, at: Date): Promise<void> {
  if (!terms || run.budget_account_id === null) return
  const { workspace_id: workspaceId, budget_account_id: accountId } = run
  const account = await readAccount(tx, workspaceId, accountId)
  const { contextTokens: inputTokens, outputTokensMax: outputTokens } = terms
  const amount = priceWorstCase(terms.prices, { inputTokens, outputTokens })
  if (!account.ok || amount > freeOf(account.value) / 2n) return
  await reserveCost(tx, { workspaceId, accountId, key: lastTurnKey(run), amount, at })
}

/** A run without an account has no limit of cost. */
function openReservation(
  deps: ModelDeps,
  { run, turn, call, isLast, request: { model } }: AskModel,
  actor: Actor<string>,
  worst: Money,
) {
  const accountId = run.budget_account_id
  const prefix = `${modelKeyOf(run)}${turn}:${call}:`
  const of = (attempt: number) => ({
    workspaceId: run.workspace_id,
    accountId: accountId ?? '',
    key: `${prefix}${attempt}`,
    at: deps.now(),
    model,
  })
  return {
    /** Tries are numbered by their reservations: the gate can refuse a call before it writes a row. */
    async nextTry(lastBegun: number): Promise<number> {
      if (accountId === null) return lastBegun + 1
      const { number, open } = await findLastTry(deps.db, { accountId, workspaceId: run.workspace_id, prefix })
      if (open === undefined) return number + 1
      // A process died between the reservation and the call.
      if (number > lastBegun && open === worst) return number
      // A process died during the call. Nobody knows what it cost.
      await settleCost(deps.db, actor, { ...of(number), amount: open })
      return number + 1
    },
    async reserve(attempt: number): Promise<Decision<unknown> | undefined> {
      if (accountId === null) return undefined
      if (!isLast) return reserveCost(deps.db, { ...of(attempt), amount: worst })
      // What was set aside is free and taken again in one commit: no other run of the account gets in between.
      return deps.db.transaction(async (tx) => {
        await releaseCost(tx, actor, { ...of(attempt), key: lastTurnKey(run) })
        return reserveCost(tx, { ...of(attempt), amount: worst })
      })
    },
    async settle(tx: Sql, attempt: number, amount: Money): Promise<void> {
      if (accountId !== null) await settleCost(tx, actor, { ...of(attempt), amount })
    },
    async release(attempt: number): Promise<void> {
      if (accountId !== null) await releaseCost(deps.db, actor, of(attempt))
    },
  }
}
