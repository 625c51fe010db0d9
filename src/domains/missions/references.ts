/** References of a payload to the results of other tasks: `{"$from": "notes", "path": "/artifact_id"}`. Pure. */
import { formatPath, isJsonObject, type JsonObject, type JsonStep, type JsonValue } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'

export type ResultReference = { readonly from: string; readonly path: string; readonly fault?: string }

/** `{"$from": …}`, with nothing but an optional `path`. An object with `$from` is never sent as it is. */
function referenceOf(value: JsonObject): ResultReference | undefined {
  if (!Object.hasOwn(value, '$from')) return undefined
  const { $from: from, path = '', ...rest } = value
  if (typeof from !== 'string' || typeof path !== 'string' || Object.keys(rest).length > 0)
    return { from: '', path: '', fault: 'A reference has the text $from, and nothing else but the text path.' }
  return path === '' || path.startsWith('/')
    ? { from, path }
    : { from, path, fault: `The path ${quote(path)} is no JSON pointer: it begins with a slash.` }
}

export function referencesIn(
  value: JsonValue,
  steps: readonly JsonStep[] = [],
): readonly (ResultReference & { readonly at: string; readonly steps: readonly JsonStep[] })[] {
  if (Array.isArray(value)) return value.flatMap((each: JsonValue, index) => referencesIn(each, [...steps, index]))
  if (typeof value !== 'object' || value === null || !isJsonObject(value)) return []
  const own = referenceOf(value)
  if (own) return [{ ...own, at: formatPath(steps), steps }]
  return Object.entries(value).flatMap(([key, each]) => referencesIn(each, [...steps, key]))
}

/** Puts the results of upstream tasks into a payload. */
export function fillReferences(value: JsonValue, results: ReadonlyMap<string, JsonValue>): Decision<JsonValue> {
  if (Array.isArray(value)) {
    const filled: JsonValue[] = []
    for (const each of value as readonly JsonValue[]) {
      const one = fillReferences(each, results)
      if (!one.ok) return one
      filled.push(one.value)
    }
    return accept(filled)
  }
  if (typeof value !== 'object' || value === null || !isJsonObject(value)) return accept(value)
  const own = referenceOf(value)
  if (own) return lookUp(own, results)
  const filled: [string, JsonValue][] = []
  for (const [key, each] of Object.entries(value)) {
    const one = fillReferences(each, results)
    if (!one.ok) return one
    filled.push([key, one.value])
  }
  return accept(Object.fromEntries(filled))
}

/** A JSON pointer (RFC 6901) into the result of one task. */
export function lookUp(
  { from, path, fault }: ResultReference,
  results: ReadonlyMap<string, JsonValue>,
): Decision<JsonValue> {
  if (fault !== undefined) return refuse('missions.plan.invalid', fault)
  let found: JsonValue | undefined = results.get(from)
  const steps = path === '' ? [] : path.split('/').slice(1)
  for (const step of steps) {
    const key = step.replaceAll('~1', '/').replaceAll('~0', '~')
    const isInside = typeof found === 'object' && found !== null && Object.hasOwn(found, key)
    found = isInside ? (found as Readonly<Record<string, JsonValue>>)[key] : undefined
  }
  if (found !== undefined) return accept(found)
  return refuse('missions.plan.invalid', `The result of ${quote(from)} has nothing at ${quote(path)}.`)
}
