/** Org roles: named groups of people that decide what is visible to them, and which workspaces they may enter. */
import type { Actor, PersonActor } from '#kernel/actor'
import { parseName, parseSlug } from '#contract'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { IdentityDeps } from './deps.ts'
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
import { decideAdministers, decideOther, handsOf } from './person.ts'
import { refusePerson } from './principal.ts'
import { resolveWorkspace } from './workspace.ts'

export type CreateOrgRole = { readonly orgId: string; readonly slug: string; readonly name: string }

export async function createOrgRole(
  deps: IdentityDeps,
  actor: Actor,
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
    if (!role) return refuse('identity.org_role.slug_taken', `The role ${slug.value} already exists.`, { path: 'slug' })
    const payload = { role_id: role.id, slug: role.slug }
    await appendOrgEvent(tx, deps, actor, { type: 'org_role_created', orgId: role.org_id, payload })
    return accept(role)
  })
}

export type OrgRoleGrant = { readonly orgId: string; readonly userId: string; readonly role: string }
/** False: the person already had the role, or did not have it. */
export type GrantOutcome = { readonly changed: boolean }

/** A role decides what a person sees and which questions they may answer, so nobody grants one to themselves. */
export function grantOrgRole(deps: IdentityDeps, actor: Actor, grant: OrgRoleGrant): Promise<Decision<GrantOutcome>> {
  return changeMembership(deps, actor, grant, 'org_role_granted')
}

export function revokeOrgRole(deps: IdentityDeps, actor: Actor, grant: OrgRoleGrant): Promise<Decision<GrantOutcome>> {
  return changeMembership(deps, actor, grant, 'org_role_revoked')
}

async function changeMembership(
  deps: IdentityDeps,
  actor: Actor,
  { orgId, userId, role: slug }: OrgRoleGrant,
  type: 'org_role_granted' | 'org_role_revoked',
): Promise<Decision<GrantOutcome>> {
  const isGrant = type === 'org_role_granted'
  const allowed = decideMembership(actor, orgId, userId, isGrant)
  if (!allowed.ok) return allowed
  return deps.db.transaction(async (tx) => {
    // Both are looked up inside the org: a role or a user of another org is reported as not found (I2).
    const role = await findOrgRole(tx, orgId, slug)
    if (!role) return refuse('identity.org_role.not_found', 'There is no such role.', { path: 'role' })
    if (!(await findUser(tx, orgId, userId))) return refusePerson('user_id')
    const changed = isGrant
      ? await insertMembership(tx, orgId, role.id, userId, { by: await handsOf(tx, actor), at: deps.now() })
      : await deleteMembership(tx, orgId, role.id, userId)
    const payload = { role_id: role.id, role: role.slug, user_id: userId }
    if (changed) await appendOrgEvent(tx, deps, actor, { type, orgId, payload })
    return accept({ changed })
  })
}

/** A person needs the rights of an administrator of the same org; an actor without a principal is Concord itself. */
function decideMembership({ principal }: Actor, orgId: string, userId: string, isGrant: boolean): Decision<null> {
  if (!principal) return accept(null)
  const allowed = isGrant ? decideOther(principal, userId, 'grant a role to') : decideAdministers(principal)
  if (!allowed.ok || principal.orgId === orgId) return allowed
  return refuse('identity.org.not_found', 'There is no such organisation.')
}

export type Membership = { readonly workspaceId: string; readonly userId: string }

export async function addMember(
  deps: IdentityDeps,
  actor: PersonActor,
  { workspaceId, userId }: Membership,
): Promise<Decision<GrantOutcome>> {
  const access = await findAccess(deps, actor, workspaceId)
  if (!access.ok) return access
  return grantOrgRole(deps, actor, { orgId: actor.principal.orgId, userId, role: access.value.role })
}

export async function removeMember(
  deps: IdentityDeps,
  actor: PersonActor,
  { workspaceId, userId }: Membership,
): Promise<Decision<GrantOutcome>> {
  const access = await findAccess(deps, actor, workspaceId)
  if (!access.ok) return access
  if (access.value.ownerId === userId) {
    return refuse('identity.workspace.owner', 'The owner of a workspace may always enter it.')
  }
  return revokeOrgRole(deps, actor, { orgId: actor.principal.orgId, userId, role: access.value.role })
}

/** The members of a workspace are the members of its access role; a workspace that is open to everybody has none. */
async function findAccess(
  deps: IdentityDeps,
  { principal }: PersonActor,
  workspaceId: string,
): Promise<Decision<{ readonly role: string; readonly ownerId: string | null }>> {
  const allowed = decideAdministers(principal)
  if (!allowed.ok) return allowed
  const found = await resolveWorkspace(deps, principal, { idHeader: workspaceId })
  if (!found.ok) return { ...found, path: 'workspace_id' }
  const { access_role: role, owner_user_id: ownerId } = found.value
  if (role !== null) return accept({ role, ownerId })
  return refuse('identity.workspace.open', 'Everybody in the organisation may enter this workspace.', {
    hint: 'Create a workspace with an access role to choose who may enter.',
  })
}
