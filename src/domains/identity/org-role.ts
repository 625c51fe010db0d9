/** Creates an org role: a named circle of people that decides what is visible to them. */
import type { Actor, Principal } from '#kernel/actor'
import { parseName, parseSlug } from '#contract'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Tx } from '#store'
import { byPrincipal, type IdentityDeps } from './deps.ts'
import { appendOrgEvent } from './events.ts'
import {
  deleteMembership,
  findOrg,
  findOrgRole,
  findUser,
  insertMembership,
  insertOrgRole,
  type StoredOrgRole,
} from './identity-repository.ts'
import { decideAdministers, decideOther } from './person.ts'
import { resolveWorkspace } from './workspace.ts'

export type CreateOrgRole = { readonly orgId: string; readonly slug: string; readonly name: string }

export async function createOrgRole(
  deps: IdentityDeps,
  by: Actor,
  input: CreateOrgRole,
): Promise<Decision<StoredOrgRole>> {
  const slug = parseSlug(input.slug)
  if (!slug.ok) return { ...slug, path: 'slug' }
  const name = parseName(input.name)
  if (!name.ok) return { ...name, path: 'name' }
  return deps.db.transaction(async (tx) => {
    if (!(await findOrg(tx, input.orgId))) return refuse('identity.org.not_found', 'There is no such organisation.')
    const created = {
      id: deps.newId(),
      org_id: input.orgId,
      slug: slug.value,
      name: name.value,
      created_at: deps.now(),
    }
    const role = await insertOrgRole(tx, created)
    if (!role) return refuse('identity.org_role.slug_taken', `The role ${slug.value} exists already.`, { path: 'slug' })
    const payload = { role_id: role.id, slug: role.slug }
    await appendOrgEvent(tx, deps, by, { type: 'org_role_created', orgId: role.org_id, payload })
    return accept(role)
  })
}

/** Gives a user an org role, or takes it away; both do nothing, and say so, when there is nothing to change. */
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

/** Puts people into the circles of an organisation and takes them out, by name of the role or by the workspace it opens. */
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
