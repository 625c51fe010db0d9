/** Where the credentials and roles of people come from, for people who existed before it was recorded. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { byPerson } from '#kernel/actor'
import { openTestDb } from '#test/database'
import { migrateDown, migrateUp } from '#store'
import { aStoreRowsOf, insertRow, rowsOf } from '#test/store-rows'
import { accepted, anOrgRole, aTenant, aWorld, TRACE } from '#test/tenant'
import { openAuthenticator } from './authenticate.ts'
import { invitePerson, redeemInvitation } from './invitation.ts'
import { grantOrgRole } from './org-role.ts'

test('[H3] a database that existed before learns from its events who invited whom and who granted which role', async (t) => {
  const opened = await openTestDb()
  t.after(() => opened.close())
  const world = aWorld(opened.db, new Date())
  const { orgId, people, workspace } = await aTenant(world)
  await anOrgRole(world, orgId, 'owner')
  const { authenticate } = openAuthenticator({ db: opened.db, now: world.now })
  const root = people.admin.principal
  const hire = async (name: string, by = root) => {
    const made = accepted(
      await invitePerson(world, byPerson(by, TRACE), { externalId: `local:${name}`, role: 'admin' }),
    )
    const { key } = accepted(await redeemInvitation(world, TRACE, made.invitation?.text ?? ''))
    return accepted(await authenticate(key))
  }
  const second = await hire('second')
  const third = await hire('third', second)
  const open = accepted(
    await invitePerson(world, byPerson(second, TRACE), { externalId: 'local:open', role: 'reader' }),
  )
  accepted(await grantOrgRole(world, byPerson(third, TRACE), { orgId, userId: second.userId, role: 'owner' }))

  const read = async () => ({
    people: await opened.db.query(
      `select external_id, array(select unnest(issuers) order by 1) as issuers from identity.users order by external_id`,
    ),
    roles: await opened.db.query(
      `select user_id, array(select unnest(granted_by) order by 1) as by from identity.org_role_memberships`,
    ),
    invitation: await opened.db.query(
      `select array(select unnest(issuers) order by 1) as by from identity.api_keys
      where user_id = $1`,
      [open.person.id],
    ),
  })
  const recorded = await read()
  assert.deepEqual(recorded.roles, [
    { user_id: second.userId, by: [third.userId, second.userId, root.userId].toSorted() },
  ])
  assert.deepEqual(recorded.invitation, [{ by: [second.userId, root.userId].toSorted() }])
  accepted(await migrateDown(opened.url, { to: 25 }))
  accepted(await migrateUp(opened.url))
  assert.deepEqual(await read(), recorded)

  // Before 0029 an owner without the role of the engine could read no event. Its open approvals know no issuers.
  accepted(await migrateDown(opened.url, { to: 28 }))
  const rows = aStoreRowsOf({ workspace: workspace.id })
  await insertRow(opened.db, 'concord.commands', { ...rowsOf['concord.commands'](rows), command_id: rows.command })
  const asked = { ...rowsOf['concord.approvals'](rows), requested_by: `user:${third.userId}` }
  await insertRow(opened.db, 'concord.approvals', asked)
  await opened.db.query(`update identity.users set issuers = '{}'`)
  await opened.db.query(`update identity.org_role_memberships set granted_by = '{}'`)
  await opened.db.query(`update identity.api_keys set issuers = '{}'`)
  accepted(await migrateUp(opened.url))
  assert.deepEqual(await read(), recorded)
  const [approval] = await opened.db.query<{ issuers: Record<string, string[]> }>(
    `select request_payload->'issuers' as issuers from concord.approvals`,
  )
  assert.deepEqual(approval?.issuers[`user:${third.userId}`]?.toSorted(), [second.userId, root.userId].toSorted())
})
