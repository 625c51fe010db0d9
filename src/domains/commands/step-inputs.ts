/** Fills the payload of an effect with results of earlier steps when the effect begins, so that what acts is recorded before it acts. Pure. */
import type { JsonObject, JsonStep, JsonValue } from '#kernel/json-value'
import type { ResultInput } from '#kernel/step'
import type { CommandWithEffects, StoredEffect } from './command-table.ts'

/** Undefined: the payload takes no results. A result without the field leaves the value out, and the schema of the effect decides. */
export function fillInputs(
  { command: { plan }, effects }: CommandWithEffects,
  effect: Pick<StoredEffect, 'domain_effect_id' | 'effect_payload'>,
): JsonObject | undefined {
  const step = plan?.steps.find(({ metadata }) => metadata['domain_effect_id'] === effect.domain_effect_id)
  const inputs = step?.metadata['inputs'] as readonly ResultInput[] | undefined
  if (!inputs?.length) return undefined
  const payload = structuredClone(effect.effect_payload)
  for (const { path, step: at, field } of inputs) {
    const earlier = plan?.steps.find(({ step_id }) => step_id === `step_${at + 1}`)?.metadata['domain_effect_id']
    const found = effects.find(({ domain_effect_id }) => domain_effect_id === earlier)?.result
    put(payload, path, fieldOf(found, field))
  }
  return payload
}

function fieldOf(result: unknown, field: string): JsonValue | undefined {
  if (typeof result !== 'object' || result === null || !Object.hasOwn(result, field)) return undefined
  // A stored result is JSON.
  return (result as JsonObject)[field]
}

type Branch = Record<JsonStep, JsonValue>

/** The path comes from the plan, so everything above the value is there. */
function put(payload: JsonObject, path: readonly JsonStep[], value: JsonValue | undefined): void {
  const above = path.slice(0, -1).reduce<Branch>((branch, name) => branch[name] as unknown as Branch, payload)
  const last = path.at(-1) ?? ''
  if (value === undefined) delete above[last]
  else above[last] = value
}
