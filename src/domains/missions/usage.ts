/** What attempts may cost and have used. Pure. */
import { isJsonObject, type JsonValue } from '#kernel/json-value'
import { formatMoney, type Money, moneyFromMicros, parseMoney, zeroMoney } from '#kernel/money'
import { COST_MAX, type MissionConfig } from './config.ts'
import type { Reported, StoredTask } from './mission.ts'

/** What a command beside the attempts has used. `key` is that of its reservation. */
export type Aside = { readonly key: string; readonly cost: Money; readonly tokens: number }

/** What an attempt of a task has used. */
export type Usage = {
  readonly task: StoredTask
  readonly attempt: number
  readonly cost: Money
  readonly tokens: number
}

/** What is no amount counts as nothing. */
export function amountIn(text: string | null | undefined): Money {
  const amount = parseMoney(text ?? '')
  return amount.ok ? amount.value : zeroMoney
}
const least = (left: Money, right: Money): Money => (left < right ? left : right)

/** What one attempt of a task may cost: its own maximum, never above that of the mission. Without both it may cost nothing. */
export function maxCostOf(maxCost: string | undefined, { budget }: Pick<MissionConfig, 'budget'>): Money {
  const most = budget?.per_task_limit
  if (maxCost === undefined) return amountIn(most)
  return most === undefined ? amountIn(maxCost) : least(amountIn(maxCost), amountIn(most))
}

/** A cost as a row holds it. The account holds all of it. */
export function addCost(cost: string, more: Money): string {
  const sum = moneyFromMicros(amountIn(cost) + more)
  return formatMoney(sum.ok ? least(sum.value, COST_MAX) : COST_MAX)
}

const TOKENS_MAX = 2_147_483_647
export const addTokens = (tokens: number, more: number): number => Math.min(TOKENS_MAX, tokens + more)

/** What a worker says that its attempt has used. */
export const reported = (task: StoredTask, { cost, tokens }: Reported): Usage => ({
  task,
  attempt: task.attempt_number,
  cost: amountIn(cost),
  tokens: addTokens(0, tokens),
})

/**
 * What an attempt has used. `spent` is what the agents of all attempts of the task have spent; null: it had none, and its result may say what it has used:
 * `{ "usage": { "cost": "0.25", "tokens": 1200 } }`.
 */
export function usageOf(task: StoredTask, spent: string | null, result: JsonValue): Usage {
  const { cost, tokens } = task.submission ? reported(task, task.submission) : declaredIn(result)
  const before = amountIn(task.cost)
  const all = amountIn(spent)
  const own = all > before ? ((all - before) as Money) : zeroMoney
  return { task, attempt: task.attempt_number, cost: spent === null ? cost : own, tokens }
}

/** What a command beside the attempts has used: what its agents have spent, or what its result says. */
export function usageIn(spent: string | null, result: JsonValue): Pick<Usage, 'cost' | 'tokens'> {
  const { cost, tokens } = declaredIn(result)
  return { cost: spent === null ? cost : amountIn(spent), tokens }
}

function declaredIn(result: JsonValue): Pick<Usage, 'cost' | 'tokens'> {
  const { usage = null } = isJsonObject(result) ? result : {}
  const { cost = null, tokens = null } = isJsonObject(usage) ? usage : {}
  const isCount = typeof tokens === 'number' && Number.isSafeInteger(tokens) && tokens > 0
  return { cost: amountIn(typeof cost === 'string' ? cost : null), tokens: isCount ? addTokens(0, tokens) : 0 }
}
