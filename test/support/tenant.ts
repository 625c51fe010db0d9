/** People and workspaces for tests: a clock that the test moves, and an organisation with one user for each role. */
import { randomBytes } from 'node:crypto'
import {
  createOrg,
  createOrgRole,
  createUser,
  createWorkspace,
  grantOrgRole,
  type IdentityDeps,
  type PlatformRole,
  platformRoles,
  type Principal,
  type Workspace,
} from '../../src/domains/identity/index.ts'
import { createApiKey } from '../../src/domains/identity/api-key.ts'
import type { Decision } from '../../src/kernel/refusal.ts'
import { uuidV7Generator } from '../../src/kernel/ids.ts'
import type { Db } from '../../src/store/db.ts'
import { byPerson, bySystem } from '#kernel/actor'

export const TRACE = 'trace_00000000000000000000000000000001'

export type TestWorld = IdentityDeps & {
  /** Moves the clock. */
  travel(ms: number): void
}

export function aWorld(db: Db, start = new Date('2026-05-01T10:00:00.000Z')): TestWorld {
  let atMs = start.getTime()
  const now = () => new Date(atMs)
  const bytes = (count: number) => randomBytes(count)
  return {
    db,
    now,
    randomBytes: bytes,
    newId: uuidV7Generator(now, bytes),
    travel: (ms) => {
      atMs += ms
    },
  }
}

/** Returns the value, or fails the test with the refusal. */
export function accepted<T>(decision: Decision<T>): T {
  if (decision.ok) return decision.value
  throw new Error(`Refused with ${decision.code}: ${decision.reason}`)
}

export type TestPerson = { readonly principal: Principal; readonly key: string; readonly keyId: string }

export type Tenant = {
  readonly orgId: string
  readonly slug: string
  /** Open to everyone in the org and owned by the admin. */
  readonly workspace: Workspace
  readonly people: Readonly<Record<PlatformRole, TestPerson>>
}

let count = 0

export async function aTenant(world: IdentityDeps, slug = `org-${++count}`): Promise<Tenant> {
  const by = bySystem(TRACE)
  const org = accepted(await createOrg(world, by, { slug, name: `Organisation ${slug}` }))
  const people: Partial<Record<PlatformRole, TestPerson>> = {}
  for (const role of platformRoles) people[role] = await aPerson(world, { orgId: org.id, slug }, role)
  const { admin } = people as Record<PlatformRole, TestPerson>
  const workspace = accepted(
    await createWorkspace(world, by, {
      orgId: org.id,
      slug: 'main',
      name: 'Main',
      ownerUserId: admin.principal.userId,
    }),
  )
  return { orgId: org.id, slug, workspace, people: people as Record<PlatformRole, TestPerson> }
}

/** A user with a key of the same role. */
export async function aPerson(
  world: IdentityDeps,
  org: { readonly orgId: string; readonly slug: string },
  role: PlatformRole,
  name = `${role}-${++count}`,
): Promise<TestPerson> {
  const externalId = `local:${org.slug}-${name}`
  const user = accepted(await createUser(world, bySystem(TRACE), { orgId: org.orgId, externalId, role }))
  const principal: Principal = {
    credential: 'api_key',
    userId: user.id,
    orgId: org.orgId,
    orgSlug: org.slug,
    externalId,
    email: null,
    role,
    orgRoles: [],
    keyId: null,
    workspaceId: null,
  }
  const { stored, key } = accepted(await createApiKey(world, byPerson(principal, TRACE), { name, role }))
  return { principal: { ...principal, keyId: stored.id }, key, keyId: stored.id }
}

/** Creates an org role with these members. */
export async function anOrgRole(
  world: IdentityDeps,
  orgId: string,
  slug: string,
  members: readonly TestPerson[] = [],
): Promise<void> {
  accepted(await createOrgRole(world, bySystem(TRACE), { orgId, slug, name: slug }))
  for (const { principal } of members) {
    accepted(await grantOrgRole(world, bySystem(TRACE), { orgId, userId: principal.userId, role: slug }))
  }
}
