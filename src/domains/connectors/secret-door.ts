/** Lets a call resolve the references of its own declaration, and no others: a reference in the input is nobody's permission. */
import { type CallContext, ConnectorFailure } from './connector.ts'
import type { ConnectorDefinition } from './define-connector.ts'
import type { Scrubber } from './scrub.ts'
import type { Secrets } from './secrets.ts'

export function secretDoor(
  secrets: Secrets,
  { name, auth, secret_refs }: ConnectorDefinition,
  scrubber: Scrubber,
): Pick<CallContext, 'secret' | 'conceal'> {
  const known = new Set([...(auth.secret_ref === null ? [] : [auth.secret_ref]), ...secret_refs])
  return {
    async secret(reference) {
      if (!known.has(reference))
        throw new ConnectorFailure(
          'permission_denied',
          `${name} may not resolve a reference that it does not declare`,
          'no',
        )
      const resolved = await secrets.resolve(reference)
      if (!resolved.ok) {
        const isGone = resolved.code === 'connectors.secret.unavailable'
        throw new ConnectorFailure(isGone ? 'transient_connector_error' : 'permission_denied', resolved.reason, 'no')
      }
      scrubber.learn(resolved.value)
      return resolved.value
    },
    conceal: (derived) => scrubber.learn(derived),
  }
}
