/** Separation of duties over HTTP: whose decision counts for a requester who administers people, and what a new invitation needs. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { CreatedApiKeyView, InvitedPersonView, MeView } from '#domains/identity'
import { bySystem } from '#kernel/actor'
import { createUser, grantOrgRole } from '#domains/identity'
import { type AgentApi, openAgentApi } from '#test/agents'
import { call } from '#test/api'
import { accepted, anOrgRole, aPerson, type TestPerson, TRACE } from '#test/tenant'

const OUTSIDE = { subject: 'May', destination: 'external:finance@example.com' }
const YES = { decision: 'approved' }
const ISSUED = '403 approvals.approver.issued_by_requester'
const LATE_ROLE = '403 approvals.approver.role_by_requester'

type Answer = Awaited<ReturnType<AgentApi['get']>>
type Shown = {
  readonly approval_id: string
  readonly may_decide: boolean
  readonly blocked_by: { readonly code: string; readonly hint: string } | null
  readonly not_counted: readonly { readonly name: string; readonly reason: string }[]
}

describe('a requester who administers people', () => {
  let room: AgentApi
  let root: TestPerson
  let count = 0
  before(async () => {
    room = await openAgentApi('none')
    root = room.api.ours.people.admin
    await anOrgRole(room.api.world, room.api.ours.orgId, 'data-owner')
  })
  after(() => room.close())

  const outcome = ({ status, body }: Answer) => `${status} ${(body['code'] as string | undefined) ?? 'ok'}`
  async function ask<T>(path: string, body: unknown, key = root.key): Promise<T> {
    const answer = await room.post(path, body, key)
    assert.ok(answer.status < 300, JSON.stringify(answer.body))
    room.api.world.travel(1_000)
    return answer.body as T
  }

  /** Asks for something that a data owner must approve, and returns the approval. */
  async function request(by = root): Promise<Shown> {
    const payload = { ...OUTSIDE, subject: `May ${++count}` }
    const { command_id } = await ask<{ command_id: string }>(
      '/commands',
      { task_name: 'Publish Note', payload },
      by.key,
    )
    await room.room.settleWoken()
    const { items } = (await room.get(`/approvals?command_id=${command_id}`)).body as { items: Shown[] }
    assert.ok(items[0])
    room.api.world.travel(1_000)
    return items[0]
  }
  const decide = async ({ approval_id }: Shown, key: string, body: object = YES) =>
    outcome(await room.post(`/approvals/${approval_id}/resolve`, body, key))
  const grant = (userId: string, by = root.key) => ask(`/people/${userId}/org-roles`, { org_role: 'data-owner' }, by)

  /** Redeems as anybody who has seen the text could. The clock of the test is in the past, the database decides the expiry. */
  async function redeem({ invitation }: InvitedPersonView): Promise<string> {
    await room.room.rows(`update identity.api_keys set expires_at = now() + interval '1 day' where is_invitation`)
    return (await ask<CreatedApiKeyView>('/invitations/redeem', { invitation }, '')).key
  }
  const invite = (name: string, by = root.key, role = 'writer') =>
    ask<InvitedPersonView>('/people', { external_id: `local:${name}-${++count}`, role }, by)

  test('[H3] cannot decide through a person whom they invited before or after the request', async () => {
    const before_ = await invite('sock')
    await grant(before_.user_id)
    const early = await redeem(before_)
    const asked = await request()
    const after_ = await invite('late')
    await grant(after_.user_id)
    const late = await redeem(after_)
    for (const key of [early, late]) {
      const refused = await room.post(`/approvals/${asked.approval_id}/resolve`, YES, key)
      assert.equal(outcome(refused), ISSUED)
      assert.match(String(refused.body['hint']), /identity provider/)
    }
    // The inbox of such a person does not offer it, and everybody sees why.
    const mine = (await room.get('/approvals?mine=true', early)).body as { items: Shown[] }
    assert.ok(!mine.items.some(({ approval_id }) => approval_id === asked.approval_id))
    const shown = (await room.get(`/approvals/${asked.approval_id}`, early)).body as Shown
    assert.equal(shown.may_decide, false)
    assert.equal(shown.blocked_by?.code, 'approver_not_independent')
    assert.ok(shown.not_counted.some(({ name, reason }) => /sock/.test(name) && /requester issued/.test(reason)))
  })

  test('[H3] cannot decide through keys that such a person makes, nor through somebody whom such a person invited', async () => {
    const second = await invite('second-admin', root.key, 'admin')
    const secondKey = await redeem(second)
    const more = await ask<CreatedApiKeyView>('/keys', { name: 'more', role: 'admin' }, secondKey)
    await ask<CreatedApiKeyView>('/keys', { name: 'self', role: 'admin' }, more.key)
    const third = await invite('third', more.key)
    await grant(third.user_id, secondKey)
    await grant(second.user_id)
    const thirdKey = await redeem(third)
    const asked = await request()
    for (const key of [secondKey, more.key, thirdKey]) assert.equal(await decide(asked, key), ISSUED)
  })

  test('[H3] an administrator with two invited people cannot ask as one of them and approve as the other, or as themselves', async () => {
    const { world, ours } = room.api
    const boss = await aPerson(world, { orgId: ours.orgId, slug: ours.slug }, 'admin', `boss-${++count}`)
    const bossId = `user_${boss.principal.userId.replaceAll('-', '')}`
    await grant(bossId)
    const first = await redeem(await invite('first-puppet', boss.key))
    const second = await invite('second-puppet', boss.key)
    await grant(second.user_id)
    const secondKey = await redeem(second)
    // One more between them: the boss makes an administrator, who makes a third.
    const between = await redeem(await invite('between', boss.key, 'admin'))
    const third = await invite('third-puppet', between)
    await grant(third.user_id)
    const thirdKey = await redeem(third)

    const asked = await request({ ...boss, key: first })
    assert.equal(await decide(asked, secondKey), '403 approvals.approver.same_issuer')
    assert.equal(await decide(asked, thirdKey), '403 approvals.approver.same_issuer')
    assert.equal(await decide(asked, boss.key), '403 approvals.approver.issued_requester')
    const byThird = await request({ ...boss, key: thirdKey })
    for (const key of [secondKey, boss.key])
      assert.match(await decide(byThird, key), /403 .*(same_issuer|issued_requester)/)
    // Neither the boss nor an administrator of the boss can give the role to somebody now.
    const late = await aPerson(world, { orgId: ours.orgId, slug: ours.slug }, 'writer', `late-${count}`)
    const lateId = `user_${late.principal.userId.replaceAll('-', '')}`
    for (const by of [boss.key, between]) {
      await grant(lateId, by)
      assert.equal(await decide(asked, late.key), LATE_ROLE)
      await call(room.api.app, `/people/${lateId}/org-roles/data-owner`, { method: 'DELETE', key: root.key })
    }
    // A new invitation by somebody else does not change who made the request.
    const { user_id } = (await room.get('/me', first)).body as MeView
    const again = await ask<InvitedPersonView>(`/people/${user_id}/invite`, {}, root.key)
    await room.room.rows(`update identity.api_keys set expires_at = now() + interval '1 day' where is_invitation`)
    await ask(`/people/${user_id}/invite/confirm`, {}, first)
    await redeem(again)
    assert.equal(await decide(asked, boss.key), '403 approvals.approver.issued_requester')
    // Inbox, card and explanation say the same.
    const mine = (await room.get('/approvals?mine=true', secondKey)).body as { items: Shown[] }
    assert.ok(!mine.items.some(({ approval_id }) => approval_id === asked.approval_id))
    const shown = (await room.get(`/approvals/${asked.approval_id}`, secondKey)).body as Shown & { command_id: string }
    assert.equal(shown.may_decide, false)
    const told = shown.not_counted.map(({ name, reason }) => `${name} ${reason}`).join('; ')
    assert.match(told, /second-puppet-\d+ has credentials of the same issuer as the requester/)
    assert.match(told, /boss-\d+ issued the credentials of the requester/)
    const why = (await room.get(`/commands/${shown.command_id}/explanation`)).body as { summary: string }
    assert.match(why.summary, /boss-\d+ does not count, who issued the credentials of the requester/)
    // Somebody whom another administrator made decides.
    const owner = await invite('owner')
    await grant(owner.user_id)
    assert.equal(await decide(asked, await redeem(owner)), '200 ok')
  })

  test('[H3] the inbox shows nobody a request that only a late role makes theirs, and no reader any request', async () => {
    const { world, ours } = room.api
    const late = await aPerson(world, { orgId: ours.orgId, slug: ours.slug }, 'writer')
    const reader = await aPerson(world, { orgId: ours.orgId, slug: ours.slug }, 'reader')
    await grant(`user_${reader.principal.userId.replaceAll('-', '')}`)
    const asked = await request()
    await grant(`user_${late.principal.userId.replaceAll('-', '')}`)
    for (const { key } of [late, reader]) {
      const { items } = (await room.get('/approvals?mine=true', key)).body as { items: Shown[] }
      assert.ok(!items.some(({ approval_id }) => approval_id === asked.approval_id))
      assert.equal(((await room.get(`/approvals/${asked.approval_id}`, key)).body as Shown).may_decide, false)
    }
    const { items } = (await room.get('/approvals?mine=true&limit=1', late.key)).body as { items: Shown[] }
    assert.ok(items.every(({ may_decide }) => may_decide))
  })

  test('[H3] people of the identity provider have no issuers', async () => {
    const { orgId } = room.api.ours
    const user = accepted(
      await createUser(room.api.world, bySystem(TRACE), { orgId, externalId: `auth0|${++count}`, role: 'writer' }),
    )
    await grant(user.id.replace(/^/, 'user_').replaceAll('-', ''))
    const [row] = await room.room.rows<{ issuers: string[] }>(
      `select issuers from identity.users where id = '${user.id}'`,
    )
    assert.deepEqual(row?.issuers, [])
  })

  test('[H3] a role that the requester granted after the request does not count, by whatever route', async () => {
    const { world, ours } = room.api
    const independent = await aPerson(world, { orgId: ours.orgId, slug: ours.slug }, 'writer')
    const userId = `user_${independent.principal.userId.replaceAll('-', '')}`
    const asked = await request()
    assert.equal(await decide(asked, independent.key), '403 approvals.approver.not_asked')
    await grant(userId)
    assert.equal(await decide(asked, independent.key), LATE_ROLE)
    // Through a second administrator whom the requester made, and by taking and giving again.
    const second = await invite('granter', root.key, 'admin')
    const secondKey = await redeem(second)
    await call(room.api.app, `/people/${userId}/org-roles/data-owner`, { method: 'DELETE', key: root.key })
    await grant(userId, secondKey)
    assert.equal(await decide(asked, independent.key), LATE_ROLE)
    // The same role counts for what is requested afterwards, and for other requesters.
    assert.equal(await decide(await request(), independent.key), '200 ok')
    const writer = room.api.ours.people.writer
    const byOther = await request(writer)
    assert.equal(await decide(byOther, independent.key), '200 ok')
    accepted(
      await grantOrgRole(world, bySystem(TRACE), {
        orgId: ours.orgId,
        userId: writer.principal.userId,
        role: 'data-owner',
      }),
    )
    assert.equal(await decide(asked, writer.key), '200 ok')
  })

  test('[H3] a new invitation for somebody with keys changes nothing until that person or a second administrator agrees', async () => {
    const { world, ours } = room.api
    const second = await aPerson(world, { orgId: ours.orgId, slug: ours.slug }, 'admin')
    const ann = await invite('ann')
    const annKey = await redeem(ann)
    const again = await ask<InvitedPersonView>(`/people/${ann.user_id}/invite`, {})
    assert.equal(again.awaits_yes, true)
    const isLive = async (key: string) => (await room.get('/me', key)).status === 200
    assert.equal(await isLive(annKey), true)
    const redeemed = () => room.post('/invitations/redeem', { invitation: again.invitation }, '')
    await room.room.rows(`update identity.api_keys set expires_at = now() + interval '1 day' where is_invitation`)
    assert.equal(outcome(await redeemed()), '401 identity.invitation.invalid')
    // The person and the other administrators are told; the maker cannot agree; a stranger cannot either.
    const told = async (key: string) =>
      ((await room.get('/notifications?unread=true', key)).body as { items: { subject: string }[] }).items.map(
        ({ subject }) => subject,
      )
    const subject = `A new invitation for ${ann.external_id} waits for a second yes`
    assert.ok((await told(annKey)).includes(subject))
    assert.ok(!(await told(root.key)).includes(subject))
    assert.ok((await told(second.key)).includes(subject))
    assert.deepEqual((await room.post('/notifications/read', {}, second.key)).body, { marked: 1 })
    assert.deepEqual(await told(second.key), [])
    const me = (await room.get('/me', annKey)).body as MeView
    assert.equal(me.invitation_by, `user_${root.principal.userId.replaceAll('-', '')}`)
    const confirm = (key: string) => room.post(`/people/${ann.user_id}/invite/confirm`, {}, key)
    assert.equal(outcome(await confirm(root.key)), '403 identity.invitation.own')
    assert.equal(outcome(await confirm(room.api.ours.people.writer.key)), '403 identity.role.insufficient')
    assert.deepEqual((await confirm(annKey)).body, { changed: true })
    assert.equal(await isLive(annKey), false)
    const next = ((await redeemed()).body as CreatedApiKeyView).key
    assert.equal(await isLive(next), true)
    const events = (await room.get('/org/audit?limit=20', root.key)).body as { items: { event_type: string }[] }
    const types = events.items.map(({ event_type }) => event_type)
    for (const type of ['user_invited', 'invitation_confirmed', 'invitation_redeemed']) assert.ok(types.includes(type))
  })

  test('[H3] revoking the keys first, or deactivating and reactivating, needs the same second yes', async () => {
    const second = await aPerson(room.api.world, { orgId: room.api.ours.orgId, slug: room.api.ours.slug }, 'admin')
    for (const trick of ['revoke', 'reactivate'] as const) {
      const ann = await invite('ann')
      const annKey = await redeem(ann)
      const { key_id } = (await room.get('/me', annKey)).body as MeView
      if (trick === 'revoke') await call(room.api.app, `/keys/${key_id}`, { method: 'DELETE', key: root.key })
      else await ask(`/people/${ann.user_id}/deactivate`, {})
      const verb = trick === 'revoke' ? 'invite' : 'reactivate'
      const again = await ask<InvitedPersonView>(`/people/${ann.user_id}/${verb}`, {})
      assert.equal(again.awaits_yes, true, trick)
      await room.room.rows(`update identity.api_keys set expires_at = now() + interval '1 day' where is_invitation`)
      const early = await room.post('/invitations/redeem', { invitation: again.invitation }, '')
      assert.equal(outcome(early), '401 identity.invitation.invalid')
      const confirmed = await room.post(`/people/${ann.user_id}/invite/confirm`, {}, second.key)
      assert.deepEqual(confirmed.body, { changed: true })
      await redeem(again)
    }
  })

  test('[H3] an administrator whom the maker invited, at any distance, cannot agree to the invitation of the maker', async () => {
    const { world, ours } = room.api
    const maker = await aPerson(world, { orgId: ours.orgId, slug: ours.slug }, 'admin')
    const puppet = await redeem(await invite('puppet-admin', maker.key, 'admin'))
    const second = await redeem(await invite('puppet-of-puppet', puppet, 'admin'))
    const ann = await invite('ann')
    const annKey = await redeem(ann)
    const confirm = (key: string) => room.post(`/people/${ann.user_id}/invite/confirm`, {}, key)
    const TIED = '403 identity.invitation.not_independent'
    const again = async (key: string) => {
      assert.equal((await ask<InvitedPersonView>(`/people/${ann.user_id}/invite`, {}, key)).awaits_yes, true)
      await room.room.rows(`update identity.api_keys set expires_at = now() + interval '1 day' where is_invitation`)
    }
    await again(maker.key)
    for (const key of [puppet, second]) assert.equal(outcome(await confirm(key)), TIED)
    // The maker made the puppet, and the puppets have the maker in common.
    await again(second)
    for (const key of [maker.key, puppet]) assert.equal(outcome(await confirm(key)), TIED)
    assert.equal((await room.get('/me', annKey)).status, 200)
    assert.deepEqual((await confirm(root.key)).body, { changed: true })
  })

  test('[H3] why names the people whose decision does not count', async () => {
    const sock = await invite('told')
    await grant(sock.user_id)
    const asked = await request()
    const { command_id } = (await room.get(`/approvals/${asked.approval_id}`)).body
    const why = (await room.get(`/commands/${String(command_id)}/explanation`)).body as { summary: string }
    assert.doesNotMatch(why.summary, /local:told/)
    await redeem(sock)
    const later = (await room.get(`/commands/${String(command_id)}/explanation`)).body as { summary: string }
    assert.match(
      later.summary,
      /The decision of local:told-\d+ does not count, who has credentials that the requester issued/,
    )
  })
})

describe('by default, in a team that one administrator has invited', () => {
  let room: AgentApi
  let root: string
  before(async () => {
    room = await openAgentApi()
    root = room.api.ours.people.admin.key
    await anOrgRole(room.api.world, room.api.ours.orgId, 'data-owner')
  })
  after(() => room.close())

  const ask = async <T>(path: string, body: unknown, key = root): Promise<T> => {
    const answer = await room.post(path, body, key)
    assert.ok(answer.status < 300, JSON.stringify(answer.body))
    room.api.world.travel(1_000)
    return answer.body as T
  }
  const redeem = async ({ invitation, user_id }: InvitedPersonView) => {
    await room.room.rows(`update identity.api_keys set expires_at = now() + interval '1 day' where is_invitation`)
    const { key, key_id } = await ask<CreatedApiKeyView>('/invitations/redeem', { invitation }, '')
    return { key, key_id, user_id }
  }
  const invite = (name: string, role: string, by = root) =>
    ask<InvitedPersonView>('/people', { external_id: `local:${name}`, role }, by)
  const hire = async (name: string, role = 'writer', by = root) => redeem(await invite(name, role, by))

  test('[H3] people whom the same person invited decide for each other, which is shown; the inviter does not', async () => {
    const [ana, dora] = [await hire('ana'), await hire('dora')]
    const { orgId, people } = room.api.ours
    const { userId } = people.admin.principal
    accepted(await grantOrgRole(room.api.world, bySystem(TRACE), { orgId, userId, role: 'data-owner' }))
    const { command_id } = await ask<{ command_id: string }>(
      '/commands',
      { task_name: 'Publish Note', payload: OUTSIDE },
      ana.key,
    )
    await room.room.settleWoken()
    const { items } = (await room.get(`/approvals?command_id=${command_id}`)).body as { items: Shown[] }
    const [asked] = items
    assert.ok(asked)
    const decide = (key: string) => room.post(`/approvals/${asked.approval_id}/resolve`, YES, key)
    assert.equal((await decide(root)).body['code'], 'approvals.approver.issued_requester')
    // The administrator is no requester, so a role of now counts.
    await ask(`/people/${dora.user_id}/org-roles`, { org_role: 'data-owner' })
    assert.equal((await decide(dora.key)).status, 200)
    const why = (await room.get(`/commands/${command_id}/explanation`)).body as { chain: readonly { text: string }[] }
    assert.ok(why.chain.some(({ text }) => text.includes('credentials of the same issuer as the requester')))
  })

  test('[G3] [H3] a second administrator whom the same person invited agrees to a new invitation; the maker and their issuers do not', async () => {
    const [ben, cleo, ann] = [await hire('ben', 'admin'), await hire('cleo', 'admin'), await hire('ann')]
    const puppet = await hire('puppet', 'admin', ben.key)
    const renew = async (by: string, verb = 'invite') => {
      const again = await ask<InvitedPersonView>(`/people/${ann.user_id}/${verb}`, {}, by)
      await room.room.rows(`update identity.api_keys set expires_at = now() + interval '1 day' where is_invitation`)
      return again
    }
    const confirm = (key: string) => room.post(`/people/${ann.user_id}/invite/confirm`, {}, key)
    const again = await renew(ben.key)
    assert.equal(again.awaits_yes, true)
    for (const [key, code, reason] of [
      [ben.key, 'identity.invitation.own', /You made/],
      [root, 'identity.invitation.not_independent', /You issued the credentials of the person who made/],
      [puppet.key, 'identity.invitation.not_independent', /Your credentials came through the person who made/],
    ] as const) {
      const { body } = await confirm(key)
      assert.equal(body['code'], code)
      assert.match(String(body['detail']), reason)
    }
    assert.equal((await room.get('/me', ann.key)).status, 200)
    const { items } = (await room.get('/notifications?unread=true', cleo.key)).body as { items: { text: string }[] }
    assert.ok(items.some(({ text }) => text.includes('or an administrator agrees whose credentials did not come')))
    assert.deepEqual((await confirm(cleo.key)).body, { changed: true })
    const renewed = await redeem(again)

    // Every other administrator descends from the first one, and the person has no key to agree with: it works at once.
    await call(room.api.app, `/keys/${renewed.key_id}`, { method: 'DELETE', key: root })
    assert.equal((await renew(root)).awaits_yes, false)
    // The same without keys, by somebody whose second administrator has no key yet, and then has one.
    await ask(`/people/${cleo.user_id}/deactivate`, {})
    const late = await invite('late', 'admin')
    assert.equal((await renew(ben.key)).awaits_yes, false)
    await redeem(late)
    assert.equal((await renew(ben.key)).awaits_yes, true)
  })
})
