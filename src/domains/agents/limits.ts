/** The limits of runs and swarms: numbers above 0, so that no limit is switched off by a zero, a NaN or an infinity. */
import { z } from 'zod'
import { moneyFromNumber } from '#kernel/money'
import type { Refusal } from '#kernel/refusal'

export function countLimit(most: number) {
  const error = `Give a whole number from 1 to ${most}.`
  return z.int({ error }).min(1, { error }).max(most, { error })
}

const COST_MAX = 999_999_999
const costError = `Give a number above 0 and up to ${COST_MAX}, with at most six decimals.`
export const costLimit = z
  .number({ error: costError })
  .refine((units) => units > 0 && units <= COST_MAX && moneyFromNumber(units).ok, { error: costError })

export const STEPS_MAX = 10_000
/** From the start. Null: no deadline. */
export const deadlineLimit = countLimit(525_600).nullable().default(null)

const MINUTE_MS = 60_000
export function deadlineAfter(at: Date, minutes: number | null): Date | null {
  return minutes === null ? null : new Date(at.getTime() + minutes * MINUTE_MS)
}

/** Of deadlines of which either may be missing. */
export function earlier(one: Date | null, other: Date | null): Date | null {
  if (one === null || other === null) return one ?? other
  return one < other ? one : other
}

export const agentLimits = z.strictObject({
  max_steps: countLimit(STEPS_MAX).default(20),
  /** The cost that the run and its children may cause, in cost units. Null: only the account of its parent limits it. */
  max_cost_units: costLimit.nullable().default(null),
  deadline_minutes: deadlineLimit,
})

/** A wrong value of a limit has one code, wherever it is declared. */
export function asLimit(refusal: Refusal): Refusal {
  const isLimit =
    refusal.code !== 'unknown_field' &&
    /(^|\.)(limits\.|max_steps$|max_cost_units$|deadline_minutes$)/.test(refusal.path ?? '')
  return isLimit ? { ...refusal, code: 'limit_value' } : refusal
}
