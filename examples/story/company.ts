/** A small company: a requester, three approvers, and an administrator who cannot approve for them. */
import {
  createOrg,
  createOrgRole,
  createUser,
  createWorkspace,
  grantOrgRole,
  type IdentityDeps,
  type PlatformRole,
  type Principal,
} from '#domains/identity'
import type { Decision } from '#kernel/refusal'
import { bySystem } from '#kernel/actor'

/** Name, platform role, and the org role that rules name. */
const staff = [
  ['ana', 'writer', undefined],
  ['dora', 'writer', 'data-owner'],
  ['ben', 'writer', 'booking-approver'],
  ['bo', 'writer', 'budget-owner'],
  ['ada', 'admin', undefined],
] as const satisfies readonly (readonly [string, PlatformRole, string | undefined])[]

type PersonName = (typeof staff)[number][0]

export type Company = {
  readonly workspaceId: string
  readonly people: Readonly<Record<PersonName, Principal>>
}

export const TRACE = 'trace_00000000000000000000000000000e01'

function made<T>(decision: Decision<T>): T {
  if (decision.ok) return decision.value
  throw new Error(`${decision.code}: ${decision.reason}`)
}

export async function openCompany(world: IdentityDeps): Promise<Company> {
  const by = bySystem(TRACE)
  const org = made(await createOrg(world, by, { slug: 'acme', name: 'Acme' }))
  const people: Partial<Record<PersonName, Principal>> = {}
  for (const [name, role, orgRole] of staff) {
    const externalId = `local:${name}`
    const user = made(await createUser(world, by, { orgId: org.id, externalId, role }))
    if (orgRole !== undefined) {
      made(await createOrgRole(world, by, { orgId: org.id, slug: orgRole, name: orgRole }))
      made(await grantOrgRole(world, by, { orgId: org.id, userId: user.id, role: orgRole }))
    }
    people[name] = {
      credential: 'api_key',
      userId: user.id,
      orgId: org.id,
      orgSlug: org.slug,
      externalId,
      email: null,
      role,
      orgRoles: orgRole === undefined ? [] : [orgRole],
      keyId: null,
      workspaceId: null,
    }
  }
  // The loop covers the whole list.
  const all = people as Record<PersonName, Principal>
  const owner = { orgId: org.id, ownerUserId: all.ada.userId }
  const workspace = made(await createWorkspace(world, by, { ...owner, slug: 'main', name: 'Main' }))
  return { workspaceId: workspace.id, people: all }
}
