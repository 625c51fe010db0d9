/** Judges a payload against its contract: it fits, something that can be asked for is absent, or it makes no sense. Pure. */
import { formatPath, type JsonObject, type JsonValue } from '#kernel/json-value'
import { guardValue } from '#kernel/json-value-guard'
import type { CommandType } from './catalog/definitions.ts'
import type { TaskSpec } from './catalog/task-spec.ts'

export type PayloadVerdict =
  | { readonly t: 'fits'; readonly payload: JsonObject }
  | { readonly t: 'missing'; readonly fields: readonly string[] }
  | { readonly t: 'malformed'; readonly errors: readonly string[] }

const ERRORS_MAX = 10

export function validatePayload(
  type: CommandType,
  spec: Pick<TaskSpec, 'required_inputs'>,
  payload: JsonObject,
): PayloadVerdict {
  const absent = spec.required_inputs.filter((path) => isAbsent(payload, path.split('.')))
  const parsed = type.payload.safeParse(payload)
  const issues = parsed.success ? [] : parsed.error.issues
  const missing = new Set(absent)
  const errors: string[] = []
  for (const issue of issues) {
    const steps = issue.path.map((step) => (typeof step === 'number' ? step : String(step)))
    const path = formatPath(steps)
    if (issue.code !== 'unrecognized_keys' && steps.length > 0 && isAbsent(payload, steps)) missing.add(path)
    // The message is zod's own and names types and limits, never the value that was sent.
    else errors.push(`${path === '' ? 'payload' : path}: ${issue.message}`)
  }
  if (errors.length > 0) return { t: 'malformed', errors: errors.slice(0, ERRORS_MAX) }
  if (missing.size > 0) return { t: 'missing', fields: [...missing].toSorted() }
  return asJson(parsed.success ? parsed.data : payload)
}

/** Defaults and trimmed texts are part of what was validated; a schema that makes something else of it cannot be stored. */
function asJson(value: unknown): PayloadVerdict {
  const guarded = guardValue(value)
  const isObject =
    guarded.ok && typeof guarded.value === 'object' && guarded.value !== null && !Array.isArray(guarded.value)
  if (isObject) return { t: 'fits', payload: guarded.value as JsonObject }
  return { t: 'malformed', errors: ['payload: the schema of this type does not give a JSON object'] }
}

function isAbsent(payload: JsonObject, steps: readonly (string | number)[]): boolean {
  let value: JsonValue | undefined = payload
  for (const step of steps) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return true
    value = (value as Readonly<Record<string | number, JsonValue>>)[step]
  }
  return value === undefined || value === null
}
