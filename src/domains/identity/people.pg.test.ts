import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Decision } from '#kernel/refusal'
import { openTestDb, type TestDb } from '#test/database'
import { accepted, anOrgRole, aTenant, aWorld, type Tenant, type TestWorld, TRACE } from '#test/tenant'
import { bootstrapAdmin } from './bootstrap-admin.ts'
import { createOrg } from './identity-repository.ts'
import { createWorkspace } from './workspace.ts'
import { createOrgRole, grantOrgRole } from './org-role.ts'
import { createUser } from './person.ts'
import { bySystem } from '#kernel/actor'

const by = bySystem(TRACE)
const code = (decision: Decision<unknown>) => (decision.ok ? 'accepted' : decision.code)

describe('organisations and their people', () => {
  let opened: TestDb
  let world: TestWorld
  let ours: Tenant
  let theirs: Tenant

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
    world = aWorld(opened.db)
    ours = await aTenant(world, 'ours')
    theirs = await aTenant(world, 'theirs')
  })
  after(() => opened.close())

  test('[FLOW-001] a second organisation with the same short name is refused and writes nothing', async () => {
    const events = async () => (await opened.db.query('select 1 from concord.domain_events')).length
    const before = await events()
    assert.equal(code(await createOrg(world, by, { slug: 'ours', name: 'Again' })), 'identity.org.slug_taken')
    assert.equal(await events(), before)
  })

  test('[FLOW-004] one identity belongs to one organisation', async () => {
    const user = { externalId: 'auth0|ada', role: 'reader' } as const
    assert.equal(code(await createUser(world, by, { ...user, orgId: ours.orgId })), 'accepted')
    assert.equal(code(await createUser(world, by, { ...user, orgId: theirs.orgId })), 'identity.user.external_id_taken')
    assert.equal(code(await createUser(world, by, { ...user, orgId: ours.orgId })), 'identity.user.external_id_taken')
  })

  test('[FLOW-003] a user has one of the three platform roles', async () => {
    const user = { orgId: ours.orgId, externalId: 'auth0|root', role: 'root' as 'admin' }
    assert.equal(code(await createUser(world, by, user)), 'api.field.value')
  })

  test('[FLOW-005] an org role is known once in its organisation and independently in another', async () => {
    assert.equal(
      code(await createOrgRole(world, by, { orgId: ours.orgId, slug: 'finance', name: 'Finance' })),
      'accepted',
    )
    assert.equal(
      code(await createOrgRole(world, by, { orgId: ours.orgId, slug: 'finance', name: 'F' })),
      'identity.org_role.slug_taken',
    )
    assert.equal(
      code(await createOrgRole(world, by, { orgId: theirs.orgId, slug: 'finance', name: 'Finance' })),
      'accepted',
    )
  })

  test('[FLOW-007] a role is given to people of its own organisation only', async () => {
    await anOrgRole(world, theirs.orgId, 'legal')
    const userId = ours.people.reader.principal.userId
    assert.equal(
      code(await grantOrgRole(world, by, { orgId: theirs.orgId, userId, role: 'legal' })),
      'identity.user.not_found',
    )
    assert.equal(
      code(await grantOrgRole(world, by, { orgId: ours.orgId, userId, role: 'legal' })),
      'identity.org_role.not_found',
    )
    const [role] = await opened.db.query<{ id: string }>("select id from identity.org_roles where slug = 'legal'")
    const insert = 'insert into identity.org_role_memberships (role_id, user_id, org_id) values ($1, $2, $3)'
    for (const orgId of [ours.orgId, theirs.orgId]) {
      await assert.rejects(opened.db.query(insert, [role?.id, userId, orgId]), { code: '23503' })
    }
  })

  test('[FLOW-006] giving a role twice changes nothing and is recorded once', async () => {
    await anOrgRole(world, ours.orgId, 'ops')
    const grant = { orgId: ours.orgId, userId: ours.people.reader.principal.userId, role: 'ops' }
    assert.deepEqual(accepted(await grantOrgRole(world, by, grant)), { changed: true })
    assert.deepEqual(accepted(await grantOrgRole(world, by, grant)), { changed: false })
    const events = await opened.db.query(
      `select 1 from concord.domain_events where event_type = 'org_role_granted' and payload->>'role' = 'ops'`,
    )
    assert.equal(events.length, 1)
  })

  test('[FLOW-009] an organisation with data cannot be deleted', async () => {
    const admin = await opened.db.connect('concord-test')
    try {
      await admin.query('set role none')
      await assert.rejects(admin.query('delete from identity.orgs where id = $1', [ours.orgId]), { code: '23503' })
    } finally {
      await admin.end()
    }
  })

  test('a workspace needs an owner and a role of its own organisation, and a free short name', async () => {
    const workspace = { orgId: ours.orgId, slug: 'w', name: 'W', ownerUserId: null }
    const foreign = { ...workspace, ownerUserId: theirs.people.admin.principal.userId }
    assert.equal(code(await createWorkspace(world, by, foreign)), 'identity.user.not_found')
    assert.equal(
      code(await createWorkspace(world, by, { ...workspace, accessRole: 'none' })),
      'identity.org_role.not_found',
    )
    assert.equal(
      code(await createWorkspace(world, by, { ...workspace, orgId: world.newId() })),
      'identity.org.not_found',
    )
    assert.equal(
      code(await createWorkspace(world, by, { ...workspace, slug: 'main' })),
      'identity.workspace.slug_taken',
    )
    assert.equal(code(await createWorkspace(world, by, workspace)), 'accepted')
  })

  test('twenty writers of one short name: one wins', async () => {
    const tries = Array.from({ length: 20 }, (_, at) => createOrg(world, by, { slug: 'raced', name: `Try ${at}` }))
    const won = (await Promise.all(tries)).filter((decision) => decision.ok)
    assert.equal(won.length, 1)
  })

  test('[EVT-11] when the event cannot be written, neither is the change', async () => {
    const noTrace = { id: 'system', kind: 'system', traceId: '' } as const
    await assert.rejects(createOrg(world, noTrace, { slug: 'ghost', name: 'Ghost' }), /trace/)
    assert.deepEqual(await opened.db.query("select 1 from identity.orgs where slug = 'ghost'"), [])
  })
})

describe('the first start', () => {
  test('twenty processes at once make one organisation, one workspace, one administrator and show one key', async () => {
    const opened = await openTestDb({ role: 'concord_engine', poolMax: 8 })
    try {
      const world = aWorld(opened.db)
      const all = await Promise.all(Array.from({ length: 20 }, () => bootstrapAdmin(world, TRACE)))
      assert.equal(all.filter(({ key }) => key !== null).length, 1)
      for (const field of ['orgId', 'workspaceId', 'userId'] as const) {
        assert.equal(new Set(all.map((made) => made[field])).size, 1, field)
      }
      const [counts] = await opened.db.query(
        `select (select count(*)::int from identity.orgs) as orgs, (select count(*)::int from identity.workspaces) as workspaces,
                (select count(*)::int from identity.users) as users, (select count(*)::int from identity.api_keys) as keys,
                (select count(*)::int from concord.domain_events) as events`,
      )
      assert.deepEqual(counts, { orgs: 1, workspaces: 1, users: 1, keys: 1, events: 4 })
      const again = await bootstrapAdmin(world, TRACE)
      assert.deepEqual(again, { ...all[0], key: null })
    } finally {
      await opened.close()
    }
  })
})
