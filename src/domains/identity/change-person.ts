/** Changes what a person may do, or ends it: both by another administrator, both on record, neither for the last administrator. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import { redactText } from '#kernel/secret-shapes'
import { decideKeepsAdmin, decideOther } from './decide-people.ts'
import { appendOrgEvent } from './events.ts'
import {
  findPerson,
  hasOtherAdmin,
  lockPeople,
  revokeKeysOf,
  saveDeactivated,
  savePlatformRole,
  type StoredPerson,
} from './people-repository.ts'
import { isRoleAtLeast, type PlatformRole } from './platform-role.ts'
import type { Principal } from '#kernel/actor'
import { byPrincipal, type IdentityDeps } from './deps.ts'

export type SetPlatformRole = { readonly userId: string; readonly role: PlatformRole }

/** Keys keep the role they were made with and count for no more than the person has: a demotion reaches them at once. */
export async function setPlatformRole(
  deps: IdentityDeps,
  by: Principal,
  traceId: string,
  { userId, role }: SetPlatformRole,
): Promise<Decision<StoredPerson>> {
  const allowed = decideOther(by, userId, 'changes the role of')
  if (!allowed.ok) return allowed
  if (!isRoleAtLeast(role, 'reader')) {
    return refuse('api.field.value', 'This platform role does not exist.', { path: 'role' })
  }
  return deps.db.transaction(async (tx) => {
    await lockPeople(tx, by.orgId)
    const person = await findPerson(tx, by.orgId, userId)
    if (!person) return refuse('identity.user.not_found', 'There is no such person.', { path: 'user_id' })
    const loses = person.role === 'admin' && person.deactivated_at === null && role !== 'admin'
    const keeps = decideKeepsAdmin(loses, await hasOtherAdmin(tx, by.orgId, userId))
    if (!keeps.ok) return keeps
    if (await savePlatformRole(tx, by.orgId, userId, role)) {
      const payload = { user_id: userId, from: person.role, to: role }
      await appendOrgEvent(tx, deps, byPrincipal(by, traceId), { type: 'user_role_changed', orgId: by.orgId, payload })
    }
    return accept({ ...person, role })
  })
}

export type DeactivatePerson = { readonly userId: string; readonly reason?: string | undefined }

/** Nothing is deleted: what they decided keeps their name. Their keys end now and stay ended when they come back. */
export async function deactivatePerson(
  deps: IdentityDeps,
  by: Principal,
  traceId: string,
  { userId, reason }: DeactivatePerson,
): Promise<Decision<StoredPerson>> {
  const allowed = decideOther(by, userId, 'deactivates')
  if (!allowed.ok) return allowed
  return deps.db.transaction(async (tx) => {
    await lockPeople(tx, by.orgId)
    const person = await findPerson(tx, by.orgId, userId)
    if (!person) return refuse('identity.user.not_found', 'There is no such person.', { path: 'user_id' })
    const loses = person.role === 'admin' && person.deactivated_at === null
    const keeps = decideKeepsAdmin(loses, await hasOtherAdmin(tx, by.orgId, userId))
    if (!keeps.ok) return keeps
    const now = deps.now()
    // The first time stands.
    if (!(await saveDeactivated(tx, by.orgId, userId, now))) return accept(person)
    const ended = await revokeKeysOf(tx, by.orgId, userId, now)
    const payload = { user_id: userId, keys_ended: ended, reason: reason === undefined ? null : redactText(reason) }
    await appendOrgEvent(tx, deps, byPrincipal(by, traceId), { type: 'user_deactivated', orgId: by.orgId, payload })
    return accept({ ...person, deactivated_at: now })
  })
}
