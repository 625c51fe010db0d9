/** Reads texts out of an effect's payload or result; contracts have checked it before, so anything else is a fault of the task. */
import { EffectFailure } from '#domains/commands'
import type { JsonObject } from '#kernel/json-value'

export function textOf(payload: JsonObject, field: string): string {
  const value = payload[field]
  if (typeof value === 'string') return value
  throw new EffectFailure('validation_error', `the effect has no text ${field}`)
}

/** Of what an effect returned, which is JSON of the task's own making. */
export function idOf(result: unknown, field: string): string {
  return textOf((result ?? {}) as JsonObject, field)
}
