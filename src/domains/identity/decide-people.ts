/** Who may change whom: administrators, never themselves, and never so that nobody is left who can administer. Pure. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import { authorize } from './platform-role.ts'
import type { Principal } from '#kernel/actor'
import { decideUnbound } from './principal.ts'

/** People belong to the whole organisation: a key of one workspace does not reach them. */
export function decideAdministers(by: Pick<Principal, 'role' | 'workspaceId'>): Decision<null> {
  const allowed = authorize(by, 'admin')
  return allowed.ok ? decideUnbound(by) : allowed
}

/** Roles, leaving and coming back are given by somebody else: nobody raises himself, and a slip does not lock him out. */
export function decideOther(
  by: Pick<Principal, 'role' | 'workspaceId' | 'userId'>,
  userId: string,
  what: string,
): Decision<null> {
  const allowed = decideAdministers(by)
  if (!allowed.ok || by.userId !== userId) return allowed
  return refuse('identity.user.self', `Nobody ${what} himself.`, { hint: 'Ask another administrator.' })
}

/** Asked under the lock of the org's people. */
export function decideKeepsAdmin(losesAdmin: boolean, hasOther: boolean): Decision<null> {
  if (!losesAdmin || hasOther) return accept(null)
  return refuse('identity.user.last_admin', 'This is the last administrator of the organisation.', {
    hint: 'Make another person an administrator first.',
  })
}
