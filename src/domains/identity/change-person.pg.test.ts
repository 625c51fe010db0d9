/** People come in by invitation, change by the hand of others, and leave without a trace being lost. */
import type { Principal } from '#kernel/actor'
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Decision } from '#kernel/refusal'
import type { Db, Tx } from '#store'
import { openTestDb, type TestDb } from '#test/database'
import { accepted, anOrgRole, aPerson, aTenant, aWorld, type Tenant, type TestWorld, TRACE } from '#test/tenant'
import { until } from '#test/until'
import { createApiKey } from './api-key.ts'
import { openAuthenticator } from './authenticate.ts'
import { bootstrapAdmin } from './bootstrap-admin.ts'
import { confirmInvitation, inviteAgain, invitePerson, reactivatePerson, redeemInvitation } from './invitation.ts'
import { addMember, grantOrgRole, removeMember, revokeOrgRole } from './org-role.ts'
import { deactivatePerson, listPeople, setPlatformRole } from './person.ts'
import { createWorkspace, resolveWorkspace } from './workspace.ts'
import { byPerson, bySystem } from '#kernel/actor'

const code = (decision: Decision<unknown>) => (decision.ok ? 'accepted' : decision.code)

describe('people', () => {
  let opened: TestDb
  let world: TestWorld
  let ours: Tenant
  let theirs: Tenant
  let authenticate: (bearer: string) => Promise<Decision<unknown>>
  const admin = () => ours.people.admin.principal
  const events = (type: string, userId: string) =>
    opened.db.query<{ actor: string; workspace_id: string; payload: Record<string, unknown> }>(
      `select actor, workspace_id, payload from concord.domain_events
        where event_type = $1 and payload->>'user_id' = $2 and purpose = 'audit' order by seq`,
      [type, userId],
    )
  const invited = async (name: string, role: 'reader' | 'writer' | 'admin' = 'writer') => {
    const made = accepted(await invitePerson(world, byPerson(admin(), TRACE), { externalId: `local:${name}`, role }))
    return { userId: made.person.id, invitation: made.invitation?.text ?? '' }
  }

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
    // Invitations end by the clock of the database, so the world's clock is the real one.
    world = aWorld(opened.db, new Date())
    ours = await aTenant(world)
    theirs = await aTenant(world)
    authenticate = openAuthenticator({ db: opened.db, now: world.now }).authenticate
  })
  after(() => opened.close())

  test('an invitation opens nothing, is exchanged once, and is nowhere in the database', async () => {
    const { userId, invitation } = await invited('ada')
    assert.equal(code(await authenticate(invitation)), 'unauthenticated')
    const both = await Promise.all([1, 2].map(() => redeemInvitation(world, TRACE, invitation)))
    assert.deepEqual(both.map(code).sort(), ['accepted', 'identity.invitation.invalid'])
    const { key, stored } =
      both.flatMap((answer) => (answer.ok ? [answer.value] : []))[0] ?? assert.fail('nobody got the key')
    assert.deepEqual([stored.user_id, stored.role], [userId, 'writer'])
    assert.equal(code(await authenticate(key)), 'accepted')
    const [dump] = await opened.db.query<{ text: string }>(
      `select (select string_agg(k::text, '') from identity.api_keys k) || (select string_agg(e::text, '') from concord.domain_events e) as text`,
    )
    for (const secret of [invitation, key]) assert.equal(dump?.text.includes(secret.slice(16)), false)
    assert.deepEqual(
      (await events('invitation_redeemed', userId)).map(({ actor }) => actor),
      [`user:${userId}`],
    )
    assert.equal((await events('user_invited', userId))[0]?.actor, `user:${admin().userId}`)
  })

  test('an invitation that is unknown, spent, ended, malformed or of a person who left gets one answer', async () => {
    const { userId, invitation } = await invited('eve')
    const unknown = await redeemInvitation(world, TRACE, 'nothing')
    const answers = [
      await redeemInvitation(world, TRACE, ours.people.writer.key),
      await redeemInvitation(world, TRACE, `${invitation.slice(0, -1)}${invitation.endsWith('A') ? 'B' : 'A'}`),
    ]
    await opened.db.query(
      `update identity.api_keys set expires_at = now() - interval '1 s' where user_id = $1 and is_invitation`,
      [userId],
    )
    answers.push(await redeemInvitation(world, TRACE, invitation))
    const late = await invited('mallory')
    accepted(await deactivatePerson(world, byPerson(admin(), TRACE), { userId: late.userId }))
    answers.push(await redeemInvitation(world, TRACE, late.invitation))
    for (const answer of answers) assert.deepEqual(answer, unknown)
    assert.equal(code(unknown), 'identity.invitation.invalid')
  })

  test('a key that is being made while all keys of a person end: it ends with them', async () => {
    const { userId, invitation } = await invited('henry')
    const { key } = accepted(await redeemInvitation(world, TRACE, invitation))
    const bearer = accepted(await authenticate(key)) as Principal
    let ended: Promise<unknown> | undefined
    let isOver = false
    // Has taken its key and not committed yet, as a process that is slow at that moment.
    const slow = await opened.db.transaction(async (tx) => {
      const half = {
        ...world,
        db: { ...world.db, transaction: (work: (inner: Tx) => Promise<unknown>) => work(tx) } as Db,
      }
      const made = accepted(await createApiKey(half, byPerson(bearer, TRACE), { name: 'second', role: 'reader' }))
      ended = deactivatePerson(world, byPerson(admin(), TRACE), { userId }).finally(() => (isOver = true))
      const waits =
        'select 1 from pg_locks join pg_stat_activity using (pid) where datname = current_database() and not granted'
      await until(async () => isOver || (await opened.db.query(waits)).length > 0)
      return made.key
    })
    await ended
    assert.equal(code(await authenticate(slow)), 'unauthenticated')
    // And the other way round: let in with a key that was ended before the new one is written.
    assert.equal(
      code(await createApiKey(world, byPerson(bearer, TRACE), { name: 'third', role: 'reader' })),
      'identity.user.not_found',
    )
  })

  test('nobody holds a working key beside the person: a confirmed invitation ends all of them', async () => {
    const { userId, invitation } = await invited('grace')
    const { key } = accepted(await redeemInvitation(world, TRACE, invitation))
    const again = accepted(await inviteAgain(world, byPerson(admin(), TRACE), userId))
    assert.deepEqual([again.invitation?.isHeld, code(await authenticate(key))], [true, 'accepted'])
    const bearer = accepted(await authenticate(key)) as Principal
    assert.deepEqual(accepted(await confirmInvitation(world, byPerson(bearer, TRACE), userId)), { changed: true })
    assert.equal(code(await authenticate(key)), 'unauthenticated')
    assert.equal((await events('invitation_confirmed', userId)).at(-1)?.payload['keys_ended'], 1)
    assert.deepEqual(accepted(await confirmInvitation(world, byPerson(bearer, TRACE), userId)), { changed: false })
    const { key: fresh } = accepted(await redeemInvitation(world, TRACE, again.invitation?.text ?? ''))
    assert.equal(code(await authenticate(fresh)), 'accepted')
  })

  test('those who sign in at the identity provider get no invitation', async () => {
    const made = accepted(
      await invitePerson(world, byPerson(admin(), TRACE), { externalId: 'auth0|lin', role: 'reader' }),
    )
    assert.equal(made.invitation, null)
    assert.equal(code(await inviteAgain(world, byPerson(admin(), TRACE), made.person.id)), 'identity.user.outside')
    const taken = await invitePerson(world, byPerson(theirs.people.admin.principal, TRACE), {
      externalId: 'auth0|lin',
      role: 'reader',
    })
    assert.equal(code(taken), 'identity.user.external_id_taken')
  })

  test('[FLOW-003] a demotion reaches every key at once, and is on record with both roles', async () => {
    const person = await aPerson(world, ours, 'admin')
    const { userId } = person.principal
    accepted(await setPlatformRole(world, byPerson(admin(), TRACE), { userId, role: 'reader' }))
    const now = accepted((await authenticate(person.key)) as Decision<{ role: string }>)
    assert.equal(now.role, 'reader')
    const [event] = await events('user_role_changed', userId)
    assert.deepEqual(
      [event?.payload['from'], event?.payload['to'], event?.workspace_id],
      ['admin', 'reader', ours.orgId],
    )
    accepted(await setPlatformRole(world, byPerson(admin(), TRACE), { userId, role: 'reader' }))
    assert.equal((await events('user_role_changed', userId)).length, 1)
  })

  test('nobody raises, deactivates, invites or empowers himself, and only administrators change people', async () => {
    const self = admin().userId
    await anOrgRole(world, ours.orgId, 'treasury')
    const tries = [
      setPlatformRole(world, byPerson(admin(), TRACE), { userId: self, role: 'admin' }),
      deactivatePerson(world, byPerson(admin(), TRACE), { userId: self }),
      reactivatePerson(world, byPerson(admin(), TRACE), self),
      inviteAgain(world, byPerson(admin(), TRACE), self),
      grantOrgRole(world, byPerson(admin(), TRACE), { orgId: admin().orgId, userId: self, role: 'treasury' }),
    ]
    assert.deepEqual((await Promise.all(tries)).map(code), Array(5).fill('identity.user.self'))
    const { principal: writer } = ours.people.writer
    const other = ours.people.reader.principal.userId
    const bound = { ...admin(), workspaceId: ours.workspace.id }
    for (const [by, refusal] of [
      [writer, 'identity.role.insufficient'],
      [bound, 'identity.key.workspace_bound'],
    ] as const) {
      const answers = await Promise.all([
        invitePerson(world, byPerson(by, TRACE), { externalId: 'local:nobody', role: 'reader' }),
        setPlatformRole(world, byPerson(by, TRACE), { userId: other, role: 'admin' }),
        setPlatformRole(world, byPerson(by, TRACE), { userId: writer.userId, role: 'admin' }),
        deactivatePerson(world, byPerson(by, TRACE), { userId: other }),
        reactivatePerson(world, byPerson(by, TRACE), other),
        inviteAgain(world, byPerson(by, TRACE), other),
        grantOrgRole(world, byPerson(by, TRACE), { orgId: by.orgId, userId: other, role: 'treasury' }),
        revokeOrgRole(world, byPerson(by, TRACE), { orgId: by.orgId, userId: other, role: 'treasury' }),
        addMember(world, byPerson(by, TRACE), { workspaceId: ours.workspace.id, userId: other }),
      ])
      assert.deepEqual(answers.map(code), Array(9).fill(refusal))
    }
  })

  test('two administrators put each other out at once: one of them stays', async () => {
    for (const act of ['demote', 'deactivate'] as const) {
      const lone = await aTenant(world)
      const [one, two] = [lone.people.admin, await aPerson(world, lone, 'admin')]
      const put = (by: typeof one, out: typeof one) =>
        act === 'demote'
          ? setPlatformRole(world, byPerson(by.principal, TRACE), { userId: out.principal.userId, role: 'reader' })
          : deactivatePerson(world, byPerson(by.principal, TRACE), { userId: out.principal.userId })
      const answers = await Promise.all([put(one, two), put(two, one)])
      assert.deepEqual(answers.map(code).sort(), ['accepted', 'identity.user.last_admin'], act)
      const left = await opened.db.query(
        `select from identity.users where org_id = $1 and role = 'admin' and deactivated_at is null`,
        [lone.orgId],
      )
      assert.equal(left.length, 1)
    }
  })

  test('who leaves is out at once and for every key; who comes back has none of them', async () => {
    const person = await aPerson(world, ours, 'writer')
    const { userId } = person.principal
    const gone = accepted(
      await deactivatePerson(world, byPerson(admin(), TRACE), {
        userId,
        reason: 'left, took ghp_0123456789abcdef0123456789abcdef0123',
      }),
    )
    assert.ok(gone.deactivated_at)
    assert.equal(code(await authenticate(person.key)), 'unauthenticated')
    world.travel(1_000)
    const twice = accepted(await deactivatePerson(world, byPerson(admin(), TRACE), { userId }))
    assert.deepEqual(twice.deactivated_at, gone.deactivated_at)
    const [event, more] = await events('user_deactivated', userId)
    assert.deepEqual(
      [event?.payload['reason'], event?.payload['keys_ended'], more],
      ['left, took [redacted]', 1, undefined],
    )
    assert.equal(code(await inviteAgain(world, byPerson(admin(), TRACE), userId)), 'identity.user.deactivated')
    const back = accepted(await reactivatePerson(world, byPerson(admin(), TRACE), userId))
    assert.equal(code(await authenticate(person.key)), 'unauthenticated')
    const { key } = accepted(await redeemInvitation(world, TRACE, back.invitation?.text ?? ''))
    assert.equal(code(await authenticate(key)), 'accepted')
  })

  test('[FLOW-008] members of a workspace are those of its access role', async () => {
    await anOrgRole(world, ours.orgId, 'vault')
    const owner = admin().userId
    const input = { orgId: ours.orgId, slug: 'vault', name: 'Vault', ownerUserId: owner, accessRole: 'vault' }
    const vault = accepted(await createWorkspace(world, bySystem(TRACE), input))
    const { principal } = ours.people.writer
    const enters = async () => code(await resolveWorkspace(world, principal, { slugHeader: 'vault' }))
    const membership = { workspaceId: vault.id, userId: principal.userId }
    assert.equal(await enters(), 'workspace_unknown')
    assert.deepEqual(accepted(await addMember(world, byPerson(admin(), TRACE), membership)), { changed: true })
    assert.deepEqual(accepted(await addMember(world, byPerson(admin(), TRACE), membership)), { changed: false })
    assert.equal(await enters(), 'accepted')
    assert.deepEqual(accepted(await removeMember(world, byPerson(admin(), TRACE), membership)), { changed: true })
    assert.equal(await enters(), 'workspace_unknown')
    const ofOwner = { workspaceId: vault.id, userId: owner }
    assert.equal(code(await removeMember(world, byPerson(admin(), TRACE), ofOwner)), 'identity.workspace.owner')
    const open = { ...membership, workspaceId: ours.workspace.id }
    assert.equal(code(await addMember(world, byPerson(admin(), TRACE), open)), 'identity.workspace.open')
    // Another administrator cannot enter, so for him there is no such workspace.
    const second = (await aPerson(world, ours, 'admin')).principal
    assert.equal(code(await addMember(world, byPerson(second, TRACE), membership)), 'workspace_unknown')
  })

  test('the list shows everybody of the organisation, newest first, and nobody else', async () => {
    const all = await listPeople(world, ours.orgId, { beforeId: null, limit: 500 })
    assert.ok(all.length > 5 && all.every(({ org_id }) => org_id === ours.orgId))
    const [first, second] = all
    const rest = await listPeople(world, ours.orgId, { beforeId: first?.id ?? null, limit: 1 })
    assert.equal(rest[0]?.id, second?.id)
  })

  test('a first administrator who was let go is not brought back by the next start', async () => {
    const own = await openTestDb({ role: 'concord_engine' })
    try {
      const start = aWorld(own.db)
      const { orgId, userId } = await bootstrapAdmin(start, TRACE)
      const heir = await aPerson(start, { orgId, slug: 'default' }, 'admin')
      accepted(await deactivatePerson(start, byPerson(heir.principal, TRACE), { userId }))
      let kept: string | null = null
      const place = { read: () => Promise.resolve(kept), write: async (key: string) => void (kept = key) }
      assert.equal((await bootstrapAdmin(start, TRACE, place)).key, null)
      assert.equal(kept, null)
    } finally {
      await own.close()
    }
  })
})
