/** Gives a user an org role, or takes it away; both do nothing, and say so, when there is nothing to change. */
import type { Actor } from '#kernel/actor'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Tx } from '#store'
import { appendOrgEvent } from './events.ts'
import { deleteMembership, findOrgRole, findUser, insertMembership } from './identity-repository.ts'
import type { IdentityDeps } from './deps.ts'

export type OrgRoleGrant = { readonly orgId: string; readonly userId: string; readonly role: string }
export type GrantOutcome = { readonly changed: boolean }

export function grantOrgRole(deps: IdentityDeps, by: Actor, grant: OrgRoleGrant): Promise<Decision<GrantOutcome>> {
  return change(deps, by, grant, 'org_role_granted', (tx, roleId) =>
    insertMembership(tx, grant.orgId, roleId, grant.userId, deps.now()),
  )
}

export function revokeOrgRole(deps: IdentityDeps, by: Actor, grant: OrgRoleGrant): Promise<Decision<GrantOutcome>> {
  return change(deps, by, grant, 'org_role_revoked', (tx, roleId) =>
    deleteMembership(tx, grant.orgId, roleId, grant.userId),
  )
}

function change(
  deps: IdentityDeps,
  by: Actor,
  grant: OrgRoleGrant,
  type: 'org_role_granted' | 'org_role_revoked',
  write: (tx: Tx, roleId: string) => Promise<boolean>,
): Promise<Decision<GrantOutcome>> {
  return deps.db.transaction(async (tx) => {
    // Both are looked up inside the org: a role or a user of another org does not exist here (I2).
    const role = await findOrgRole(tx, grant.orgId, grant.role)
    if (!role) return refuse('identity.org_role.not_found', 'There is no such role.', { path: 'role' })
    const user = await findUser(tx, grant.orgId, grant.userId)
    if (!user) return refuse('identity.user.not_found', 'There is no such user.', { path: 'user_id' })
    const changed = await write(tx, role.id)
    const payload = { role_id: role.id, role: role.slug, user_id: user.id }
    if (changed) await appendOrgEvent(tx, deps, by, { type, orgId: grant.orgId, payload })
    return accept({ changed })
  })
}
