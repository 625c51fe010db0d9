/** Creates an org role: a named circle of people that decides what is visible to them. */
import type { Actor } from '#kernel/actor'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { appendOrgEvent } from './events.ts'
import { parseName, parseSlug } from '#contract'
import { findOrg, insertOrgRole, type StoredOrgRole } from './identity-repository.ts'
import type { IdentityDeps } from './deps.ts'

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
