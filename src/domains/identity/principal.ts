/** Platform roles and what a principal may do. */
import type { Principal } from '#kernel/actor'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'

/** From least to most; every role includes the rights of the ones before it. */
export const platformRoles = ['reader', 'writer', 'admin'] as const
export type PlatformRole = (typeof platformRoles)[number]

export function isRoleAtLeast(role: PlatformRole, needed: PlatformRole): boolean {
  return platformRoles.indexOf(role) >= platformRoles.indexOf(needed)
}

/** A key never has more rights than its user has now: demoting a user also demotes the keys. */
export function lowerRole(one: PlatformRole, other: PlatformRole): PlatformRole {
  return isRoleAtLeast(one, other) ? other : one
}

/** I4: a reader cannot write, a writer cannot administer. */
export function authorize(principal: Pick<Principal, 'role'>, needed: PlatformRole): Decision<PlatformRole> {
  if (isRoleAtLeast(principal.role, needed)) return accept(principal.role)
  return refuse('identity.role.insufficient', `This needs the role ${needed}; your credential has ${principal.role}.`, {
    hint: 'Ask an administrator of your organisation for a key with that role.',
    facts: { needed, role: principal.role },
  })
}

/**
 * I5: a resource with an empty list of roles is visible to administrators only; otherwise one shared org role is enough. A platform role
 * other than admin makes nothing visible.
 */
export function canSee(principal: Pick<Principal, 'role' | 'orgRoles'>, readRoles: readonly string[]): boolean {
  if (principal.role === 'admin') return true
  return readRoles.some((slug) => principal.orgRoles.includes(slug))
}

/** A key that is bound to one workspace must not create anything that gives access to another. */
export function decideUnbound(principal: Pick<Principal, 'workspaceId'>): Decision<null> {
  if (principal.workspaceId === null) return accept(null)
  return refuse('identity.key.workspace_bound', 'Your key is bound to one workspace.', {
    hint: 'Use a key that is not bound to a workspace.',
  })
}

/** The one answer for a user of another organisation and for one that does not exist (I2). */
export function refusePerson(path?: string): Refusal {
  return refuse('identity.user.not_found', 'There is no such person.', path === undefined ? {} : { path })
}
