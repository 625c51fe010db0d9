/** Puts people into the circles of an organisation and takes them out, by name of the role or by the workspace it opens. */
import { type Decision, refuse } from '#kernel/refusal'
import { decideAdministers, decideOther } from './decide-people.ts'
import { type GrantOutcome, grantOrgRole, revokeOrgRole } from './grant-org-role.ts'
import type { Principal } from '#kernel/actor'
import { resolveWorkspace } from './resolve-workspace.ts'
import { byPrincipal, type IdentityDeps } from './deps.ts'

export type GiveOrgRole = { readonly userId: string; readonly role: string }

/** A role decides what one sees and whom one may answer for: nobody gives one to himself, anybody may give one back. */
export async function giveOrgRole(
  deps: IdentityDeps,
  by: Principal,
  traceId: string,
  grant: GiveOrgRole,
): Promise<Decision<GrantOutcome>> {
  const allowed = decideOther(by, grant.userId, 'gives a role to')
  return allowed.ok ? grantOrgRole(deps, byPrincipal(by, traceId), { orgId: by.orgId, ...grant }) : allowed
}

export async function takeOrgRole(
  deps: IdentityDeps,
  by: Principal,
  traceId: string,
  grant: GiveOrgRole,
): Promise<Decision<GrantOutcome>> {
  const allowed = decideAdministers(by)
  return allowed.ok ? revokeOrgRole(deps, byPrincipal(by, traceId), { orgId: by.orgId, ...grant }) : allowed
}

export type Membership = { readonly workspaceId: string; readonly userId: string }

export async function addMember(
  deps: IdentityDeps,
  by: Principal,
  traceId: string,
  { workspaceId, userId }: Membership,
): Promise<Decision<GrantOutcome>> {
  const role = await accessRoleOf(deps, by, workspaceId)
  return role.ok ? giveOrgRole(deps, by, traceId, { userId, role: role.value.role }) : role
}

export async function removeMember(
  deps: IdentityDeps,
  by: Principal,
  traceId: string,
  { workspaceId, userId }: Membership,
): Promise<Decision<GrantOutcome>> {
  const role = await accessRoleOf(deps, by, workspaceId)
  if (!role.ok) return role
  if (role.value.ownerId === userId) {
    return refuse('identity.workspace.owner', 'The owner of a workspace may always enter it.')
  }
  return takeOrgRole(deps, by, traceId, { userId, role: role.value.role })
}

/** Members of a workspace are the members of its access role; one that is open to everybody has no list to be on. */
async function accessRoleOf(
  deps: IdentityDeps,
  by: Principal,
  workspaceId: string,
): Promise<Decision<{ readonly role: string; readonly ownerId: string | null }>> {
  const allowed = decideAdministers(by)
  if (!allowed.ok) return allowed
  const found = await resolveWorkspace(deps, by, { idHeader: workspaceId })
  if (!found.ok) return { ...found, path: 'workspace_id' }
  const { access_role: role, owner_user_id: ownerId } = found.value
  if (role !== null) return { ok: true, value: { role, ownerId } }
  return refuse('identity.workspace.open', 'Everybody of the organisation may enter this workspace.', {
    hint: 'Create a workspace with an access role to choose who may enter.',
  })
}
