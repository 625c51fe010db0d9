/** Creates a user in an organisation; an identity belongs to exactly one, over all organisations (I1). */
import type { Actor } from '#kernel/actor'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { Tx } from '#store'
import { appendOrgEvent } from './events.ts'
import { parseName } from '#contract'
import { findOrg, insertUser, type StoredUser } from './identity-repository.ts'
import { isRoleAtLeast, type PlatformRole } from './platform-role.ts'
import type { IdentityDeps } from './deps.ts'

export type CreateUser = {
  readonly orgId: string
  /** Subject at the identity provider, or `local:<name>` for someone who signs in with keys alone. */
  readonly externalId: string
  readonly email?: string | null
  readonly role: PlatformRole
}

const EMAIL = /^[^\s@]{1,64}@[^\s@]{1,190}$/

export function createUser(deps: IdentityDeps, by: Actor, input: CreateUser): Promise<Decision<StoredUser>> {
  return deps.db.transaction((tx) => addUser(tx, deps, by, input))
}

/** The same inside a transaction of the caller. */
export async function addUser(tx: Tx, deps: IdentityDeps, by: Actor, input: CreateUser): Promise<Decision<StoredUser>> {
  const externalId = parseName(input.externalId, 255)
  if (!externalId.ok) return { ...externalId, path: 'external_id' }
  const email = input.email ?? null
  if (email !== null && !EMAIL.test(email)) {
    return refuse('api.field.value', `${quote(email)} is not an e-mail address`, { path: 'email' })
  }
  if (!isRoleAtLeast(input.role, 'reader')) {
    return refuse('api.field.value', 'This platform role does not exist.', { path: 'role' })
  }
  if (!(await findOrg(tx, input.orgId))) return refuse('identity.org.not_found', 'There is no such organisation.')
  const user = await insertUser(tx, {
    id: deps.newId(),
    org_id: input.orgId,
    external_id: externalId.value,
    email,
    role: input.role,
    created_at: deps.now(),
  })
  if (!user) {
    return refuse('identity.user.external_id_taken', 'This identity already belongs to an organisation.', {
      path: 'external_id',
    })
  }
  const payload = { user_id: user.id, role: user.role }
  await appendOrgEvent(tx, deps, by, { type: 'user_created', orgId: user.org_id, payload })
  return accept(user)
}
