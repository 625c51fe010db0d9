/** Finds the first secret in a value: by the shape of a text, or by the name of its field. */
import { formatPath, type JsonObject, type JsonStep, type JsonValue } from '../json-value.ts'
import { hasSecretShape, mayBeSecretName } from '../secret-shapes.ts'
import { isSecretName } from './secret-name.ts'

export type SecretFinding = { readonly path: string; readonly by: 'shape' | 'name' }

/** The end of a sentence about the field. */
export function sayFinding({ by }: SecretFinding): string {
  return by === 'shape' ? 'looks like a key, a token or a password' : 'has the name of a secret'
}

/** `vault://team/stripe`, `env://NAME`: the location of a secret, never its value. */
const REFERENCE = /^[a-z][a-z0-9+.-]{1,31}:\/\/[\w./:@-]{1,400}$/

export function isSecretReference(value: unknown): boolean {
  return typeof value === 'string' && REFERENCE.test(value)
}

/** The way to the secret, from its end: it is written down only when there is one. */
type Trail = { readonly steps: JsonStep[]; readonly by: SecretFinding['by'] }

/**
 * `isDeclared` says whether a contract declares the field at a path of names as something else than a secret; lists have no name of their
 * own. Its value must still not have the shape of one. A finding shows where the secret is, never the secret.
 */
export function findSecret(
  value: JsonValue,
  isDeclared: (path: string) => boolean = () => false,
): SecretFinding | undefined {
  const trail = findIn(value, '', '', isDeclared)
  return trail && { path: formatPath(trail.steps.toReversed()), by: trail.by }
}

/** `names` is the path of names down to here, `secretName` the nearest of them that names a secret. */
function findIn(
  value: JsonValue,
  names: string,
  secretName: string,
  isDeclared: (path: string) => boolean,
): Trail | undefined {
  if (typeof value === 'string') return findInText(value, secretName)
  if (typeof value === 'number')
    return secretName !== '' && isSecretName(secretName, true) ? { steps: [], by: 'name' } : undefined
  if (typeof value !== 'object' || value === null) return undefined
  if (Array.isArray(value)) {
    for (const [at, item] of (value as readonly JsonValue[]).entries()) {
      const trail = findIn(item, names, secretName, isDeclared)
      if (trail) return atStep(trail, at)
    }
    return undefined
  }
  for (const name of Object.keys(value)) {
    const trail = findInField(value as JsonObject, name, names, secretName, isDeclared)
    if (trail) return trail
  }
  return undefined
}

function findInField(
  object: JsonObject,
  name: string,
  names: string,
  outerName: string,
  isDeclared: (path: string) => boolean,
): Trail | undefined {
  const field = object[name] ?? null
  const path = names === '' ? name : `${names}.${name}`
  if (!mayBeSecretName(name)) {
    const trail = findIn(field, path, outerName, isDeclared)
    return trail && atStep(trail, name)
  }
  // A field name that is itself a secret is not repeated; the path of its parent is shown instead.
  if (hasSecretShape(name)) return { steps: [], by: 'shape' }
  const isOther = isDeclared(path)
  const trail = findIn(field, path, !isOther && isSecretName(name) ? name : outerName, isDeclared)
  if (trail) return atStep(trail, name)
  // A rule may need the name of a provider next to a value that looks like any other: `adafruit_key`.
  const isShaped =
    !isOther && typeof field === 'string' && !isSecretReference(field) && hasSecretShape(`${name}="${field}"`)
  return isShaped ? { steps: [name], by: 'name' } : undefined
}

function findInText(text: string, secretName: string): Trail | undefined {
  if (hasSecretShape(text)) return { steps: [], by: 'shape' }
  return secretName !== '' && text.trim() !== '' && !isSecretReference(text) ? { steps: [], by: 'name' } : undefined
}

function atStep({ steps, by }: Trail, step: JsonStep): Trail {
  return { steps: [...steps, step], by }
}
