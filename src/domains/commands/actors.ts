/** Which people may act on a command. */
import type { Principal } from '#domains/identity'

/** By default the requester and administrators; a contract can name others for cancelling. Concord itself always may. */
export function isAllowed(
  by: { readonly id: string; readonly kind: string; readonly principal?: Pick<Principal, 'role'> | undefined },
  command: { readonly requested_by: string },
  allowed: readonly ('requester' | 'writer' | 'admin')[] = ['requester', 'admin'],
): boolean {
  if (!by.principal || by.kind === 'system') return true
  const { role } = by.principal
  return (
    (allowed.includes('requester') && command.requested_by === by.id) ||
    (allowed.includes('admin') && role === 'admin') ||
    (allowed.includes('writer') && (role === 'writer' || role === 'admin'))
  )
}
