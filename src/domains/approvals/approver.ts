/** References to approvers: persons as `user:<uuid>`, org roles as `role:<slug>`. An agent is never an approver. */
import type { Names, Principal, Origins } from '#domains/identity'
import { encodeId, isUuid } from '#kernel/ids'
import type { StoredApproval } from './stored-approval.ts'

/** The first approver, and further persons and roles that may answer. */
export type Asked = {
  readonly approver: string
  readonly approvers?: readonly string[]
  readonly roles?: readonly string[]
}

/** The part of a principal that decides which approvals are theirs. */
export type Person = Pick<Principal, 'userId' | 'externalId' | 'orgRoles' | 'agent'> & {
  /** A person who only reads decides nothing. */
  readonly role?: Principal['role']
  /** Where the credentials and roles of the person come from; omitted for a person who does not decide. */
  readonly origins?: Origins | undefined
}

const ROLE = /^[a-z0-9][a-z0-9_-]{0,62}$/
const USER_PREFIX = 'user:'
const ROLE_PREFIX = 'role:'

/** Rules write `data_owner` for the org role `data-owner`: the slug of a role has no underscore. */
export function roleSlug(name: string): string | undefined {
  return ROLE.test(name) ? name.replaceAll('_', '-') : undefined
}

export function roleRef(name: string): string | undefined {
  const slug = roleSlug(name.startsWith(ROLE_PREFIX) ? name.slice(ROLE_PREFIX.length) : name)
  return slug === undefined ? undefined : `${ROLE_PREFIX}${slug}`
}

/** A bare UUID is a person, a bare name is a role; anything else is undefined. */
export function approverRef(text: string): string | undefined {
  const id = text.startsWith(USER_PREFIX) ? text.slice(USER_PREFIX.length) : text
  if (isUuid(id)) return `${USER_PREFIX}${id}`
  return text.startsWith(USER_PREFIX) ? undefined : roleRef(text)
}

export function isPersonRef(ref: string): boolean {
  return ref.startsWith(USER_PREFIX)
}

export function personOf(person: Pick<Person, 'userId'>): string {
  return `${USER_PREFIX}${person.userId}`
}

export function rolesOf(person: Pick<Person, 'orgRoles'>): readonly string[] {
  return person.orgRoles.map((slug) => roleSlug(slug) ?? slug)
}

/** All references that name the person. */
export function refsOf(person: Pick<Person, 'userId' | 'orgRoles'>): readonly string[] {
  return [personOf(person), ...rolesOf(person).map((slug) => `${ROLE_PREFIX}${slug}`)]
}

/** A platform role does not count here: an administrator who is not an approver may not answer. */
export function isAsked(
  approval: Pick<StoredApproval, 'approver' | 'approver_roles' | 'request_payload'>,
  person: Person,
): boolean {
  const refs = refsOf(person)
  const asked = [approval.approver, ...(approval.request_payload.approvers ?? [])].map(approverRef)
  return [...asked, ...approval.approver_roles.map(roleRef)].some((ref) => ref !== undefined && refs.includes(ref))
}

export function isAgent({ externalId, agent }: Pick<Person, 'externalId' | 'agent'>): boolean {
  return agent !== undefined || externalId.startsWith('agent:')
}

/** Returns an actor as the API shows it: the id of a person with its prefix, anything else unchanged. */
export function showActor(text: string): string {
  const id = text.startsWith(USER_PREFIX) ? text.slice(USER_PREFIX.length) : ''
  return isUuid(id) ? encodeId('user', id) : text
}

/** The name of a person; null for roles and for Concord itself. */
export function nameOfActor(text: string, names: Names): string | null {
  return (text.startsWith(USER_PREFIX) ? names.get(text.slice(USER_PREFIX.length)) : undefined) ?? null
}

/** The user ids among these references. */
export function personIdsOf(actors: readonly (string | null)[]): readonly string[] {
  return actors.flatMap((text) => (text?.startsWith(USER_PREFIX) ? [text.slice(USER_PREFIX.length)] : []))
}
