/** Creates an organisation: the outermost wall between tenants. */
import type { Actor } from '#kernel/actor'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { appendOrgEvent } from './events.ts'
import { parseName, parseSlug } from '#contract'
import { insertOrg, type StoredOrg } from './identity-repository.ts'
import type { IdentityDeps } from './deps.ts'

export type CreateOrg = { readonly slug: string; readonly name: string }

export async function createOrg(deps: IdentityDeps, by: Actor, input: CreateOrg): Promise<Decision<StoredOrg>> {
  const slug = parseSlug(input.slug)
  if (!slug.ok) return { ...slug, path: 'slug' }
  const name = parseName(input.name)
  if (!name.ok) return { ...name, path: 'name' }
  return deps.db.transaction(async (tx) => {
    const org = await insertOrg(tx, { id: deps.newId(), slug: slug.value, name: name.value, created_at: deps.now() })
    if (!org) return refuse('identity.org.slug_taken', `The short name ${slug.value} is in use.`, { path: 'slug' })
    await appendOrgEvent(tx, deps, by, {
      type: 'org_created',
      orgId: org.id,
      payload: { org_id: org.id, slug: org.slug },
    })
    return accept(org)
  })
}
