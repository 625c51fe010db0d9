/** Creates a workspace in an organisation; its owner may always enter, others by the access role. */
import type { Actor } from '#kernel/actor'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { appendWorkspaceEvent } from './events.ts'
import { parseName, parseSlug } from '#contract'
import { findOrg, findOrgRole, findUser, insertWorkspace, type StoredWorkspace } from './identity-repository.ts'
import type { IdentityDeps } from './deps.ts'

export type CreateWorkspace = {
  readonly orgId: string
  readonly slug: string
  readonly name: string
  readonly ownerUserId: string | null
  /** Slug of the org role whose members may enter; without it everyone of the organisation may. */
  readonly accessRole?: string | undefined
}

export async function createWorkspace(
  deps: IdentityDeps,
  by: Actor,
  input: CreateWorkspace,
): Promise<Decision<StoredWorkspace>> {
  const slug = parseSlug(input.slug)
  if (!slug.ok) return { ...slug, path: 'slug' }
  const name = parseName(input.name)
  if (!name.ok) return { ...name, path: 'name' }
  return deps.db.transaction(async (tx) => {
    if (!(await findOrg(tx, input.orgId))) return refuse('identity.org.not_found', 'There is no such organisation.')
    if (input.ownerUserId !== null && !(await findUser(tx, input.orgId, input.ownerUserId))) {
      return refuse('identity.user.not_found', 'There is no such user.', { path: 'owner_user_id' })
    }
    const role = input.accessRole === undefined ? undefined : await findOrgRole(tx, input.orgId, input.accessRole)
    if (input.accessRole !== undefined && !role) {
      return refuse('identity.org_role.not_found', 'There is no such role.', { path: 'access_role' })
    }
    const workspace = {
      id: deps.newId(),
      org_id: input.orgId,
      slug: slug.value,
      name: name.value,
      owner_user_id: input.ownerUserId,
      created_at: deps.now(),
    }
    if (!(await insertWorkspace(tx, { ...workspace, access_role_id: role?.id ?? null }))) {
      return refuse('identity.workspace.slug_taken', `The short name ${slug.value} is in use.`, { path: 'slug' })
    }
    const payload = { workspace_id: workspace.id, slug: workspace.slug, access_role: role?.slug ?? null }
    await appendWorkspaceEvent(tx, deps, by, { type: 'workspace_created', workspaceId: workspace.id, payload })
    return accept({ ...workspace, access_role: role?.slug ?? null })
  })
}
