/** Finds the first secret in a value: by the shape of a text, or by the name of its field. */
import { formatPath, type JsonStep, type JsonValue } from '../json-value.ts'
import { hasSecretShape, mayNameSecret } from '../secret-shapes.ts'
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

/**
 * `isDeclared` says whether a contract declares the field at a path of names as something else than a secret; lists have no name of their
 * own. Its value must still not have the shape of one. A finding shows where the secret is, never the secret.
 */
export function findSecret(
  value: JsonValue,
  isDeclared: (path: string) => boolean = () => false,
): SecretFinding | undefined {
  return findIn(value, [], '', '')

  function findIn(
    inner: JsonValue,
    steps: readonly JsonStep[],
    /** The names down to here, and the nearest of them that names a secret. */
    names: string,
    secretName: string,
  ): SecretFinding | undefined {
    if (typeof inner === 'string') return findInText(inner, steps, secretName)
    if (typeof inner === 'number')
      return secretName !== '' && isSecretName(secretName, true) ? found(steps, 'name') : undefined
    if (typeof inner !== 'object' || inner === null) return undefined
    if (Array.isArray(inner)) {
      for (const [at, item] of (inner as readonly JsonValue[]).entries()) {
        const finding = findIn(item, [...steps, at], names, secretName)
        if (finding) return finding
      }
      return undefined
    }
    for (const [name, item] of Object.entries(inner)) {
      // A field name that is itself a secret is not repeated; the path of its parent is shown instead.
      if (hasSecretShape(name)) return found(steps, 'shape')
      const path = names === '' ? name : `${names}.${name}`
      const own = mayNameSecret(name) && !isDeclared(path) ? name : ''
      const finding =
        findIn(item, [...steps, name], path, isSecretName(own) ? own : secretName) ??
        // A rule may need the name of a provider next to a value that looks like any other: `adafruit_key`.
        (own !== '' && typeof item === 'string' && !isSecretReference(item) && hasSecretShape(`${name}="${item}"`)
          ? found([...steps, name], 'name')
          : undefined)
      if (finding) return finding
    }
    return undefined
  }
}

function findInText(text: string, steps: readonly JsonStep[], secretName: string): SecretFinding | undefined {
  if (hasSecretShape(text)) return found(steps, 'shape')
  return secretName !== '' && text.trim() !== '' && !isSecretReference(text) ? found(steps, 'name') : undefined
}

function found(steps: readonly JsonStep[], by: SecretFinding['by']): SecretFinding {
  return { path: formatPath(steps), by }
}
