/** Who is asked and who may answer: persons as `user:<uuid>`, org roles as `role:<slug>`. Agents are neither. */
import type { Names, Principal } from '#domains/identity'
import { encodeId, isUuid } from '#kernel/ids'
import type { StoredApproval } from './stored-approval.ts'

/** Who is asked: one in the first place, and whoever else may answer. */
export type Asked = {
  readonly approver: string
  readonly approvers?: readonly string[]
  readonly roles?: readonly string[]
}

/** The part of a principal that a decision needs. Credentials that stand for an agent say so. */
export type Decider = Pick<Principal, 'userId' | 'externalId' | 'orgRoles'> & { readonly actorType?: string }

const ROLE = /^[a-z0-9][a-z0-9_-]{0,62}$/
const USER_PREFIX = 'user:'
const ROLE_PREFIX = 'role:'

/** Rules write `data_owner`, the org's role is called `data-owner`: one name, since a role's slug has no underscore. */
export function roleSlug(name: string): string | undefined {
  return ROLE.test(name) ? name.replaceAll('_', '-') : undefined
}

export function roleRef(name: string): string | undefined {
  const slug = roleSlug(name.startsWith(ROLE_PREFIX) ? name.slice(ROLE_PREFIX.length) : name)
  return slug === undefined ? undefined : `${ROLE_PREFIX}${slug}`
}

/** A bare UUID is a person, a bare name a role; anything else is nobody. */
export function approverRef(text: string): string | undefined {
  const id = text.startsWith(USER_PREFIX) ? text.slice(USER_PREFIX.length) : text
  if (isUuid(id)) return `${USER_PREFIX}${id}`
  return text.startsWith(USER_PREFIX) ? undefined : roleRef(text)
}

export function isPersonRef(ref: string): boolean {
  return ref.startsWith(USER_PREFIX)
}

export function personOf(decider: Pick<Decider, 'userId'>): string {
  return `${USER_PREFIX}${decider.userId}`
}

export function rolesOf(decider: Pick<Decider, 'orgRoles'>): readonly string[] {
  return decider.orgRoles.map((slug) => roleSlug(slug) ?? slug)
}

/** Everything under which a person can have been asked. */
export function refsOf(decider: Pick<Decider, 'userId' | 'orgRoles'>): readonly string[] {
  return [personOf(decider), ...rolesOf(decider).map((slug) => `${ROLE_PREFIX}${slug}`)]
}

/** A platform role opens nothing here: an administrator who was not asked may not answer. */
export function isAsked(
  approval: Pick<StoredApproval, 'approver' | 'approver_roles' | 'request_payload'>,
  decider: Decider,
): boolean {
  const refs = refsOf(decider)
  const asked = [approval.approver, ...(approval.request_payload.approvers ?? [])].map(approverRef)
  return [...asked, ...approval.approver_roles.map(roleRef)].some((ref) => ref !== undefined && refs.includes(ref))
}

export function isAgent(decider: Pick<Decider, 'externalId' | 'actorType'>): boolean {
  return (decider.actorType ?? 'human') !== 'human' || decider.externalId.startsWith('agent:')
}

/** As the wire shows it: a person's id with its prefix, anything else as it stands. */
export function showActor(text: string): string {
  const id = text.startsWith(USER_PREFIX) ? text.slice(USER_PREFIX.length) : ''
  return isUuid(id) ? encodeId('user', id) : text
}

/** The name that people know a person by; null where there is none, as for roles and for Concord itself. */
export function nameOfActor(text: string, names: Names): string | null {
  return (text.startsWith(USER_PREFIX) ? names.get(text.slice(USER_PREFIX.length)) : undefined) ?? null
}

/** The ids of the persons among these, to look their names up. */
export function personIdsOf(actors: readonly (string | null)[]): readonly string[] {
  return actors.flatMap((text) => (text?.startsWith(USER_PREFIX) ? [text.slice(USER_PREFIX.length)] : []))
}
