/** Who is asking: the answer of `authenticate`, built from the credential and the database alone, never from a request body. */
import type { Principal } from '#kernel/actor'
import { accept, type Decision, refuse } from '#kernel/refusal'

/** From least to most; every role may do what the ones before it may. */
export const platformRoles = ['reader', 'writer', 'admin'] as const
export type PlatformRole = (typeof platformRoles)[number]

export function isRoleAtLeast(role: PlatformRole, needed: PlatformRole): boolean {
  return platformRoles.indexOf(role) >= platformRoles.indexOf(needed)
}

/** A key never carries more than its user has today: a demoted user's keys are demoted with it. */
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
 * I5: visibility is closed unless it is opened. An empty list names nobody, so only administrators see the thing;
 * otherwise one shared org role is enough. A platform role other than admin opens nothing.
 */
export function canSee(principal: Pick<Principal, 'role' | 'orgRoles'>, readRoles: readonly string[]): boolean {
  if (principal.role === 'admin') return true
  return readRoles.some((slug) => principal.orgRoles.includes(slug))
}

/** Every decision by a person carries the person's user id. */
export function actorOf(principal: Pick<Principal, 'userId'>): {
  readonly actorType: 'human'
  readonly actorId: string
} {
  return { actorType: 'human', actorId: principal.userId }
}

/** A key that opens one workspace must not make anything that opens another. */
export function decideUnbound(principal: Pick<Principal, 'workspaceId'>): Decision<null> {
  if (principal.workspaceId === null) return accept(null)
  return refuse('identity.key.workspace_bound', 'Your key opens one workspace and nothing beside it.', {
    hint: 'Use a key that is not bound to a workspace.',
  })
}
