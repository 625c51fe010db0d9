/**
 * Reads strings from the payload or result of an effect. Contracts have checked them, so anything else is a fault of the task.
 */
import { EffectFailure } from '#domains/commands'
import type { JsonObject } from '#kernel/json-value'

export function textOf(payload: JsonObject, field: string): string {
  const value = payload[field]
  if (typeof value === 'string') return value
  throw new EffectFailure('validation_error', `the effect has no text ${field}`)
}

/** Reads a string from the result of an effect, which the task itself wrote. */
export function idOf(result: unknown, field: string): string {
  return textOf((result ?? {}) as JsonObject, field)
}
