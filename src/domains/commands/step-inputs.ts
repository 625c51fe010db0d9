/** Values that go from step to step: filled in when an effect begins, so that what acts is recorded before it acts. Pure. */
import type { KeyTemplate } from '#kernel/idempotency-key'
import type { JsonObject, JsonStep, JsonValue } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { REDACTED } from '#kernel/secret-shapes'
import type { ResultInput } from '#kernel/step'
import type { CommandWithEffects, StoredEffect } from './command-table.ts'

type Taken = ResultInput & { readonly value: JsonValue | undefined }

/** Returns the payload with the results of earlier steps. Undefined: it takes none. A value that is not there is left out, and the effect is not called. */
export function fillInputs(found: CommandWithEffects, effect: StoredEffect): JsonObject | undefined {
  const taken = listTaken(found, effect)
  if (taken.length === 0) return undefined
  const payload = structuredClone(effect.effect_payload)
  for (const { path, value } of taken) put(payload, path, value)
  return payload
}

/** Why an effect cannot be called: a result that it takes is not there, or is a secret, which is not stored. */
export function findMissingInput(found: CommandWithEffects, effect: StoredEffect): string | undefined {
  const missing = listTaken(found, effect).find(({ value }) => value === undefined || value === REDACTED)
  if (!missing) return undefined
  const { step, field, value } = missing
  return `${field} of step ${step + 1} is ${value === undefined ? 'missing' : 'a secret, which is not stored'}`
}

function listTaken({ command: { plan }, effects }: CommandWithEffects, { domain_effect_id: id }: StoredEffect) {
  const own = plan?.steps.find(({ metadata }) => metadata['domain_effect_id'] === id)
  const inputs = (own?.metadata['inputs'] ?? []) as readonly ResultInput[]
  return inputs.map((input): Taken => {
    const earlier = plan?.steps.find(({ step_id }) => step_id === `step_${input.step + 1}`)?.metadata[
      'domain_effect_id'
    ]
    const result = effects.find(({ domain_effect_id }) => domain_effect_id === earlier)?.result
    return { ...input, value: fieldOf(result, input.field) }
  })
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

/** The key of an effect must be known before anything acts: the text that stands for a result would make different things one. */
export function checkKeyFields(
  effectType: string,
  template: KeyTemplate | undefined,
  inputs: readonly ResultInput[],
): Decision<void> {
  const fields = (template?.parts ?? []).flatMap((part) => (typeof part === 'string' ? [] : [part.field]))
  const late = fields.find((field) => inputs.some(({ path }) => isWithin(field.split('.'), path)))
  if (late === undefined) return accept(undefined)
  return refuse(
    'commands.plan.invalid',
    `The key of ${effectType} is made from ${late}, which an earlier step returns.`,
    {
      hint: 'Make the key from fields of the input, or leave out key_template.',
    },
  )
}

/** Whether the field is at the path, above it or below it. */
function isWithin(field: readonly string[], path: readonly JsonStep[]): boolean {
  return field.every((name, at) => at >= path.length || name === path[at])
}
