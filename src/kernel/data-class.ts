/** Classifies fields by sensitivity and decides what may be stored: a secret is stored as a reference or not at all. */
import { canonicalJson } from './canonical-json.ts'
import type { JsonObject, JsonValue } from './json-value.ts'
import { formatPath, isJsonObject } from './json-value.ts'
import { accept, type Decision, refuse } from './refusal.ts'
import { findSecret, sayFinding } from './secrets/find-secret.ts'
import { isSecretReference } from './secrets/reference.ts'

/** From the least to the most restricted. */
export const dataClasses = ['public', 'internal', 'confidential', 'pii', 'payment', 'secret'] as const
export type DataClass = (typeof dataClasses)[number]

const dataSafetyOutcomes = ['allow', 'redact', 'require_approval', 'deny'] as const
export type DataSafetyOutcome = (typeof dataSafetyOutcomes)[number]

export type FieldClasses = Readonly<Record<string, DataClass>>

/**
 * Accepts a payload when every secret field holds a reference and nothing else is a secret, by its shape or by the name of its field. A
 * class other than `secret` declares that a field with such a name holds something else. The refusal shows no value.
 */
export function checkSecrets(payload: JsonObject, classes: FieldClasses): Decision<JsonObject> {
  const isDeclared = (path: string) => Object.hasOwn(classes, path) && classes[path] !== 'secret'
  const found = findSecret(payload, isDeclared)
  if (found) {
    return refuse('commands.payload.secret', `\`${found.path}\` ${sayFinding(found)}.`, {
      path: found.path,
      hint:
        found.by === 'shape'
          ? 'Send a reference to its location, such as vault://team/name.'
          : 'Send a reference to its location, such as vault://team/name. If it is no secret, declare its class in `fields` of the command type.',
    })
  }
  for (const [path, dataClass] of Object.entries(classes)) {
    if (dataClass !== 'secret') continue
    for (const { value, at } of valuesAt(payload, path)) {
      if (value === null || isSecretReference(value)) continue
      return refuse(
        'commands.payload.secret',
        `\`${at}\` is a secret field and takes a reference, not the secret itself.`,
        {
          path: at,
          hint: 'Send a reference to its location, such as vault://team/name.',
        },
      )
    }
  }
  return accept(payload)
}

/**
 * Returns the payload as it may leave the organisation or be stored in a record: fields above `highest` are replaced by their
 * class.
 */
export function redactPayload(payload: JsonObject, classes: FieldClasses, highest: DataClass): JsonObject {
  return classesAbove(classes, highest).reduce<JsonObject>(
    (copy, [path, dataClass]) => replaceAt(copy, path.split('.'), `[${dataClass}]`),
    payload,
  )
}

const classesAbove = (classes: FieldClasses, highest: DataClass) =>
  Object.entries(classes).filter(([, dataClass]) => dataClasses.indexOf(dataClass) > dataClasses.indexOf(highest))

/**
 * The reverse of `redactPayload` for a payload that comes back: what is still as it was shown takes the stored value, a list only as a whole. `hidden` has the
 * paths of the fields that still hold the name of their class.
 */
export function restorePayload(
  given: JsonObject,
  stored: JsonObject,
  classes: FieldClasses,
  highest: DataClass,
): { readonly payload: JsonObject; readonly hidden: readonly string[] } {
  const payload = restore(given, redactPayload(stored, classes, highest), stored) as JsonObject
  const hidden = classesAbove(classes, highest).flatMap(([path, dataClass]) =>
    valuesAt(payload, path).flatMap(({ value, at }) => (value === `[${dataClass}]` ? [at] : [])),
  )
  return { payload, hidden }
}

function restore(given: JsonValue, shown: JsonValue, stored: JsonValue): JsonValue {
  if (canonicalJson(given) === canonicalJson(shown)) return stored
  if (!isJsonObject(given) || !isJsonObject(shown) || !isJsonObject(stored)) return given
  return Object.fromEntries(
    Object.entries(given).map(([name, value]) => {
      const [before, kept] = [shown[name], stored[name]]
      return [name, before === undefined || kept === undefined ? value : restore(value, before, kept)]
    }),
  )
}

const stricter = (one: DataClass, other: DataClass): DataClass =>
  dataClasses.indexOf(one) > dataClasses.indexOf(other) ? one : other

/** Returns the strictest class of the fields that are present; an undeclared field is `internal`. */
export function highestClass(payload: JsonObject, classes: FieldClasses): DataClass {
  const named = Object.entries(classes)
  return leavesOf(payload, []).reduce<DataClass>((highest, leaf) => {
    // A class on an object applies to everything inside it.
    const own = named.filter(([path]) => path.split('.').every((step, at) => leaf[at] === step))
    const found = own.reduce<DataClass>((most, [, dataClass]) => stricter(most, dataClass), 'public')
    return stricter(highest, own.length > 0 ? found : 'internal')
  }, 'public')
}

/** Lists the names on the path to every non-empty value; lists have no name of their own. */
function leavesOf(value: JsonValue, path: readonly string[]): readonly (readonly string[])[] {
  if (value === null) return []
  if (Array.isArray(value)) return (value as readonly JsonValue[]).flatMap((item) => leavesOf(item, path))
  if (!isJsonObject(value)) return [path]
  return Object.entries(value).flatMap(([name, inner]) => leavesOf(inner, [...path, name]))
}

/** Decides where data of this class may go outside the organisation. */
export function decideDataSafety(dataClass: DataClass, isExternal: boolean): DataSafetyOutcome {
  if (dataClass === 'secret') return 'deny'
  if (!isExternal) return 'allow'
  switch (dataClass) {
    case 'public':
      return 'allow'
    case 'internal':
    case 'confidential':
      return 'require_approval'
    case 'pii':
    case 'payment':
      return 'deny'
  }
}

type Located = { readonly value: JsonValue; readonly at: string }

/** Descends into lists: `cards.number` is the number of every card. */
function valuesAt(payload: JsonValue, path: string): readonly Located[] {
  const names = path.split('.')
  let found: { value: JsonValue; steps: (string | number)[] }[] = [{ value: payload, steps: [] }]
  for (const name of names) {
    found = found
      .flatMap(({ value, steps }) => items(value, steps))
      .flatMap(({ value, steps }) => {
        const inner = isJsonObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
        return inner === undefined ? [] : [{ value: inner, steps: [...steps, name] }]
      })
  }
  return found
    .flatMap(({ value, steps }) => items(value, steps))
    .map(({ value, steps }) => ({ value, at: formatPath(steps) }))
}

function items(value: JsonValue, steps: (string | number)[]): { value: JsonValue; steps: (string | number)[] }[] {
  return Array.isArray(value)
    ? (value as readonly JsonValue[]).flatMap((item, index) => items(item, [...steps, index]))
    : [{ value, steps }]
}

function replaceAt(value: JsonObject, names: readonly string[], text: string): JsonObject {
  const [name, ...rest] = names
  if (name === undefined || !Object.hasOwn(value, name)) return value
  return { ...value, [name]: replaceInside(value[name] ?? null, rest, text) }
}

function replaceInside(value: JsonValue, names: readonly string[], text: string): JsonValue {
  if (Array.isArray(value)) return (value as readonly JsonValue[]).map((item) => replaceInside(item, names, text))
  if (names.length === 0) return text
  return isJsonObject(value) ? replaceAt(value, names, text) : value
}
