/** Finds the first secret in a value: by the shape of a text, or by the name of its field. */
import { formatPath, type JsonObject, type JsonStep, type JsonValue } from '../json-value.ts'
import { hasSecretShape, mayBeSecretName } from '../secret-shapes.ts'
import {
  columnsFor,
  isNamedSecret,
  type ListPlace,
  nameOfField,
  nameOfItem,
  parseJson,
  TEXT_DEPTH_MAX,
} from './field-name.ts'
import { isSecretReference } from './reference.ts'

export type SecretFinding = { readonly path: string; readonly by: 'shape' | 'name' }

/** The end of a sentence about the field. */
export function sayFinding({ by }: SecretFinding): string {
  return by === 'shape' ? 'looks like a key, a token or a password' : 'has the name of a secret'
}

/** The way to the secret, from its end: it is written down only when there is one. */
type Trail = { readonly steps: JsonStep[]; readonly by: SecretFinding['by'] }

/** Where a value stands. */
type Place = ListPlace & {
  /** The path of names down to here. */
  readonly names: string
  readonly isDeclared: (path: string) => boolean
  /** The levels of JSON that are texts in JSON. */
  readonly depth: number
}

/**
 * `isDeclared` says whether a contract declares the field at a path of names as something else than a secret; lists have no name of their
 * own. Its value must still not have the shape of one. A finding shows where the secret is, never the secret.
 */
export function findSecret(
  value: JsonValue,
  isDeclared: (path: string) => boolean = () => false,
): SecretFinding | undefined {
  const trail = findIn(value, { names: '', secretName: '', isInList: false, columns: [], isDeclared, depth: 0 })
  return trail && { path: formatPath(trail.steps.toReversed()), by: trail.by }
}

function findIn(value: JsonValue, place: Place): Trail | undefined {
  if (typeof value === 'string') return findInText(value, place)
  if (typeof value !== 'object' || value === null)
    return isNamedSecret(place.secretName, value) ? { steps: [], by: 'name' } : undefined
  if (Array.isArray(value)) return findInList(value as readonly JsonValue[], place)
  for (const name of Object.keys(value)) {
    const trail = findInField(value as JsonObject, name, place)
    if (trail) return trail
  }
  return undefined
}

function findInList(list: readonly JsonValue[], place: Place): Trail | undefined {
  const inner = { ...place, isInList: true }
  for (const [at, item] of list.entries()) {
    const secretName = nameOfItem(list, at, place)
    const trail = findIn(item, secretName === inner.secretName ? inner : { ...inner, secretName })
    if (trail) return atStep(trail, at)
  }
  return undefined
}

function findInField(object: JsonObject, name: string, place: Place): Trail | undefined {
  const field = object[name] ?? null
  const names = place.names === '' ? name : `${place.names}.${name}`
  const mayBe = mayBeSecretName(name)
  // A field name that is itself a secret is not repeated; the path of its parent is shown instead.
  if (mayBe && hasSecretShape(name)) return { steps: [], by: 'shape' }
  const isOther = place.isDeclared(names)
  const secretName = isOther ? place.secretName : nameOfField(object, name, place.secretName)
  const columns = isOther ? [] : columnsFor(object, name)
  const trail = findIn(field, { ...place, names, secretName, isInList: false, columns })
  if (trail) return atStep(trail, name)
  // A rule may need the name of a provider next to a value that looks like any other: `adafruit_key`.
  const isShaped =
    mayBe && !isOther && typeof field === 'string' && !isSecretReference(field) && hasSecretShape(`${name}="${field}"`)
  return isShaped ? { steps: [name], by: 'name' } : undefined
}

function findInText(text: string, place: Place): Trail | undefined {
  if (hasSecretShape(text)) return { steps: [], by: 'shape' }
  if (isNamedSecret(place.secretName, text)) return { steps: [], by: 'name' }
  const inner = place.depth < TEXT_DEPTH_MAX ? parseJson(text) : undefined
  return inner !== undefined &&
    findIn(inner, { ...place, names: '', isInList: false, depth: place.depth + 1, isDeclared: () => false })
    ? { steps: [], by: 'shape' }
    : undefined
}

function atStep({ steps, by }: Trail, step: JsonStep): Trail {
  return { steps: [...steps, step], by }
}
