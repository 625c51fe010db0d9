/**
 * Resolves the references of a declaration, once per call and before anything is written, so that not even an input that repeats
 * a secret is recorded with it. A call gets these and no others: a reference in the input is nobody's permission.
 */
import { type CallContext, type ConnectorError, ConnectorFailure } from './connector.ts'
import type { ConnectorDefinition } from './define-connector.ts'
import type { Scrubber } from './scrub.ts'
import type { Secrets } from './secrets.ts'

export type SecretDoor = Pick<CallContext, 'secret' | 'conceal'>
export type OpenedDoor =
  | { readonly ok: true; readonly door: SecretDoor }
  | { readonly ok: false; readonly error: ConnectorError }

export async function openSecretDoor(
  secrets: Secrets,
  { name, auth, secret_refs }: ConnectorDefinition,
  scrubber: Scrubber,
): Promise<OpenedDoor> {
  const values = new Map<string, string>()
  for (const reference of new Set([...(auth.secret_ref === null ? [] : [auth.secret_ref]), ...secret_refs])) {
    const resolved = await secrets.resolve(reference)
    if (!resolved.ok) {
      const isGone = resolved.code === 'connectors.secret.unavailable'
      const error_class = isGone ? 'transient_connector_error' : 'permission_denied'
      return { ok: false, error: { error_class, message: resolved.reason, happened: 'no' } }
    }
    for (const part of partsOf(resolved.value)) scrubber.learn(part)
    values.set(reference, resolved.value)
  }
  return {
    ok: true,
    door: {
      secret(reference) {
        const value = values.get(reference)
        if (value !== undefined) return Promise.resolve(value)
        const message = `${name} may not resolve a reference that it does not declare`
        return Promise.reject(new ConnectorFailure('permission_denied', message, 'no'))
      },
      conceal: (derived) => scrubber.learn(derived),
    },
  }
}

const PART_CHARS_MIN = 6

/** The whole of it, and what it is made of: the password of an address, the second half of `user:password`. */
function partsOf(secret: string): readonly string[] {
  const address = URL.canParse(secret) ? new URL(secret) : undefined
  const parts = [address?.password ?? '', decoded(address?.password ?? ''), secret.slice(secret.indexOf(':') + 1)]
  return [secret, ...parts.filter((part) => part.length >= PART_CHARS_MIN)]
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
