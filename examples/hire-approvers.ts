/**
 * Gives a running installation the people whom the example tasks ask, each with a key of their own:
 *
 *   node examples/hire-approvers.ts [.concord]
 *
 * It goes through the identity room on the same database as the server; run again it refuses, since the people are there.
 */
import { randomBytes } from 'node:crypto'
import { resolve } from 'node:path'
import {
  bootstrapAdmin,
  bySystem,
  createApiKey,
  createOrgRole,
  createUser,
  grantOrgRole,
  type IdentityWorld,
} from '#domains/identity'
import { uuidV7Generator } from '#kernel/uuid'
import { openDb, openEmbeddedPostgres } from '#store'
import { granted } from './run-example.ts'
import { TRACE } from './story/company.ts'

const staff = [
  ['dora', 'data-owner'],
  ['ben', 'booking-approver'],
  ['bo', 'budget-owner'],
] as const

const home = resolve(process.argv[2] ?? '.concord')
const postgres = granted(await openEmbeddedPostgres({ home }))
const db = openDb({ url: postgres.url, role: 'concord_engine', poolMax: 2 })
const now = () => new Date()
const world: IdentityWorld = { db, now, randomBytes, newId: uuidV7Generator(now, randomBytes) }
try {
  const { orgId } = await bootstrapAdmin(world, TRACE)
  const by = bySystem(TRACE)
  for (const [name, role] of staff) {
    const externalId = `local:${name}`
    const user = granted(await createUser(world, by, { orgId, externalId, role: 'writer' }))
    granted(await createOrgRole(world, by, { orgId, slug: role, name: role }))
    granted(await grantOrgRole(world, by, { orgId, userId: user.id, role }))
    const person = { userId: user.id, orgId, orgSlug: 'default', externalId, email: null, orgRoles: [role] }
    const principal = { ...person, credential: 'api_key', role: 'writer', keyId: null, workspaceId: null } as const
    const { key } = granted(await createApiKey(world, principal, TRACE, { name, role: 'writer' }))
    console.log(`export ${name.toUpperCase()}=${key}`)
  }
} finally {
  await db.close()
  await postgres.stop()
}
