import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openTestDb, type TestDb } from '#test/database'
import {
  accepted,
  anOrgRole,
  aPerson,
  aTenant,
  aWorld,
  type Tenant,
  type TestPerson,
  type TestWorld,
  TRACE,
} from '#test/tenant'
import { revokeOrgRole } from './org-role.ts'
import { createWorkspace, listWorkspaces, resolveWorkspace } from './workspace.ts'
import { bySystem } from '#kernel/actor'

describe('entering a workspace', () => {
  let opened: TestDb
  let world: TestWorld
  let ours: Tenant
  let theirs: Tenant
  let owner: TestPerson
  let member: TestPerson
  let closedId: string

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
    world = aWorld(opened.db)
    ours = await aTenant(world)
    theirs = await aTenant(world)
    owner = await aPerson(world, ours, 'reader', 'owner')
    member = await aPerson(world, ours, 'reader', 'member')
    await anOrgRole(world, ours.orgId, 'finance', [member])
    const closed = {
      orgId: ours.orgId,
      slug: 'closed',
      name: 'Closed',
      ownerUserId: owner.principal.userId,
      accessRole: 'finance',
    }
    closedId = accepted(await createWorkspace(world, bySystem(TRACE), closed)).id
  })
  after(() => opened.close())

  const enter = (person: TestPerson, idHeader: string) => resolveWorkspace(world, person.principal, { idHeader })

  test('[MIS-322] each of the four places finds the workspace it names', async () => {
    const { principal } = ours.people.writer
    const id = ours.workspace.id
    for (const sources of [
      { idHeader: id },
      { slugHeader: 'main' },
      { idQuery: id },
      { fallback: id },
      { fallback: 'main' },
    ]) {
      assert.equal(accepted(await resolveWorkspace(world, principal, sources)).id, id)
    }
  })

  test('[MIS-323] owners and members of the access role enter a closed workspace, others do not', async () => {
    assert.equal((await enter(owner, closedId)).ok, true)
    assert.equal((await enter(member, closedId)).ok, true)
    assert.equal((await enter(ours.people.writer, closedId)).ok, false)
    const marketer = await aPerson(world, ours, 'admin', 'marketer')
    await anOrgRole(world, ours.orgId, 'marketing', [marketer])
    assert.equal((await enter(marketer, closedId)).ok, false, 'another role is not the access role')
  })

  test('[MIS-326] an administrator has no other way in', async () => {
    const refused = await enter(ours.people.admin, closedId)
    assert.equal(!refused.ok && refused.code, 'workspace_unknown')
    const listed = await listWorkspaces(world, ours.people.admin.principal, { afterSlug: null, limit: 10 })
    assert.deepEqual(
      listed.map(({ slug }) => slug),
      ['main'],
    )
  })

  test('[MIS-323] [FLOW-108] a forged name of a foreign workspace gets the very answer of one that does not exist', async () => {
    const foreign = await enter(ours.people.admin, theirs.workspace.id)
    const absent = await enter(ours.people.admin, '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161')
    const malformed = await enter(ours.people.admin, 'ws_nonsense')
    assert.equal(!foreign.ok && foreign.code, 'workspace_unknown')
    assert.deepEqual(foreign, absent)
    assert.deepEqual(malformed, absent)
  })

  test('a foreign short name never leads into the other organisation', async () => {
    const found = accepted(await resolveWorkspace(world, theirs.people.reader.principal, { slugHeader: 'main' }))
    assert.equal(found.id, theirs.workspace.id)
  })

  test('[MIS-323] leaving the role closes the door at once', async () => {
    const leaver = await aPerson(world, ours, 'reader', 'leaver')
    await anOrgRole(world, ours.orgId, 'legal', [leaver])
    const legal = { orgId: ours.orgId, slug: 'legal', name: 'Legal', ownerUserId: null, accessRole: 'legal' }
    const { id } = accepted(await createWorkspace(world, bySystem(TRACE), legal))
    assert.equal((await enter(leaver, id)).ok, true)
    const grant = { orgId: ours.orgId, userId: leaver.principal.userId, role: 'legal' }
    assert.deepEqual(accepted(await revokeOrgRole(world, bySystem(TRACE), grant)), { changed: true })
    assert.equal((await enter(leaver, id)).ok, false)
    assert.deepEqual(accepted(await revokeOrgRole(world, bySystem(TRACE), grant)), { changed: false })
  })

  test('a bound key opens its workspace alone, and an archived workspace opens to nobody', async () => {
    const other = { orgId: ours.orgId, slug: 'other', name: 'Other', ownerUserId: null }
    const { id } = accepted(await createWorkspace(world, bySystem(TRACE), other))
    const bound = { ...ours.people.writer.principal, workspaceId: ours.workspace.id }
    assert.equal((await resolveWorkspace(world, bound, { idHeader: id })).ok, false)
    assert.equal(accepted(await resolveWorkspace(world, bound, {})).id, ours.workspace.id)
    assert.deepEqual(
      (await listWorkspaces(world, bound, { afterSlug: null, limit: 10 })).map((workspace) => workspace.id),
      [ours.workspace.id],
    )
    await opened.db.query('update identity.workspaces set archived_at = now() where id = $1', [id])
    assert.equal((await enter(ours.people.admin, id)).ok, false)
  })

  test('naming no workspace says so', async () => {
    const none = await resolveWorkspace(world, ours.people.reader.principal, {})
    assert.equal(!none.ok && none.code, 'workspace_unknown')
    assert.match(none.ok ? '' : (none.hint ?? ''), /X-Workspace-ID/)
  })
})
