/** The routes of people: who may call what, an invitation from end to end, and the record of the organisation. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'
import type { CreatedApiKeyView, InvitedPersonView, MeView, PersonView, WorkspaceView } from '#domains/identity'
import { encodeId } from '#kernel/ids'

type Page<T> = { readonly items: readonly T[]; readonly next_cursor: string | null }
const NOBODY = 'user_0197f3b2c4d57a8e9b0c1d2e3f405163'

describe('the routes of people', () => {
  let api: TestApi
  before(async () => {
    api = await openTestApi({ defaultWorkspace: 'main' })
  })
  after(() => api.close())

  const send = async <T>(method: string, path: string, body?: unknown, key = api.ours.people.admin.key): Promise<T> => {
    const response = await call(api.app, path, { method, body, key })
    assert.ok(response.status < 300, await response.clone().text())
    return (await response.json()) as T
  }

  const closed = { reader: 'no', writer: 'no' } as const
  const missing = '404 identity.user.not_found'
  const matrix = [
    ['GET', '/people', undefined, { ...closed, admin: '200 ok' }],
    ['POST', '/people', { external_id: 'local:m', role: 'reader' }, { ...closed, admin: '201 ok' }],
    ['POST', `/people/${NOBODY}/role`, { role: 'admin' }, { ...closed, admin: missing }],
    [
      'POST',
      `/people/${NOBODY}/org-roles`,
      { org_role: 'none' },
      { ...closed, admin: '404 identity.org_role.not_found' },
    ],
    ['DELETE', `/people/${NOBODY}/org-roles/none`, undefined, { ...closed, admin: '404 identity.org_role.not_found' }],
    ['POST', `/people/${NOBODY}/deactivate`, {}, { ...closed, admin: missing }],
    ['POST', `/people/${NOBODY}/reactivate`, {}, { ...closed, admin: missing }],
    ['POST', `/people/${NOBODY}/invite`, {}, { ...closed, admin: missing }],
    ['GET', '/org-roles', undefined, { reader: '200 ok', writer: '200 ok', admin: '200 ok' }],
    ['POST', '/org-roles', { slug: 'made', name: 'Made' }, { ...closed, admin: '201 ok' }],
    ['GET', `/people/names?user_id=${NOBODY}`, undefined, { reader: '200 ok', writer: '200 ok', admin: '200 ok' }],
    ['GET', '/org/audit', undefined, { ...closed, admin: '200 ok' }],
  ] as const
  for (const [method, path, body, answers] of matrix) {
    for (const role of ['reader', 'writer', 'admin'] as const) {
      const answer = answers[role] === 'no' ? '403 identity.role.insufficient' : answers[role]
      test(`[FLOW-003] ${role}: ${method} ${path} → ${answer}`, async () => {
        const before_ = await api.fingerprint()
        const response = await call(api.app, path, { method, body, key: api.ours.people[role].key })
        assert.equal(await outcomeOf(response), answer)
        if (!answer.startsWith('2')) assert.equal(await api.fingerprint(), before_)
      })
    }
  }

  test('names are those of the own organisation, for up to 100 ids', async () => {
    const { ours, theirs } = api
    const idOf = ({ principal }: { principal: { userId: string } }) => encodeId('user', principal.userId)
    const [reader, admin, foreign] = [ours.people.reader, ours.people.admin, theirs.people.admin].map(idOf)
    const path = `/people/names?user_id=${[admin, foreign, NOBODY, reader].join()}`
    const { items } = await send<{ items: { user_id: string; name: string }[] }>(
      'GET',
      path,
      undefined,
      ours.people.reader.key,
    )
    const { items: people } = await send<Page<PersonView>>('GET', '/people?limit=500')
    const nameOf = (id: string | undefined) => people.find(({ user_id }) => user_id === id)?.external_id
    assert.deepEqual(Object.fromEntries(items.map(({ user_id, name }) => [user_id, name])), {
      [String(admin)]: nameOf(admin),
      [String(reader)]: nameOf(reader),
    })
    const many = (count: number) => `/people/names?user_id=${Array.from({ length: count }, () => NOBODY).join()}`
    const get = async (asked: string) => outcomeOf(await call(api.app, asked, { key: ours.people.reader.key }))
    assert.equal(await get(many(100)), '200 ok')
    assert.equal(await get(many(101)), '422 api.field.value')
    assert.equal(await get('/people/names?user_id=dora'), '400 id_format')
  })

  test('from an invitation to a key, a role, a workspace and out again', async () => {
    const ada = await send<InvitedPersonView>('POST', '/people', { external_id: 'local:ada', role: 'writer' })
    assert.match(ada.invitation ?? '', /^ck_/)
    assert.equal(await outcomeOf(await call(api.app, '/me', { key: ada.invitation ?? '' })), '401 unauthenticated')
    // The clock of the test is in the past; an invitation expires by the clock of the database.
    await api.deps.db.query(`update identity.api_keys set expires_at = now() + interval '1 day' where is_invitation`)
    const redeem = () => call(api.app, '/invitations/redeem', { method: 'POST', body: { invitation: ada.invitation } })
    const redeemed = await redeem()
    assert.equal(redeemed.status, 201)
    const { key } = (await redeemed.json()) as CreatedApiKeyView
    assert.equal(await outcomeOf(await redeem()), '401 identity.invitation.invalid')
    assert.equal((await send<MeView>('GET', '/me', undefined, key)).user_id, ada.user_id)

    await send('POST', '/org-roles', { slug: 'books', name: 'Books' })
    const books = await send<WorkspaceView>('POST', '/workspaces', { slug: 'books', name: 'B', access_role: 'books' })
    const seen = async () =>
      (await send<Page<WorkspaceView>>('GET', '/workspaces', undefined, key)).items.some(({ slug }) => slug === 'books')
    assert.equal(await seen(), false)
    await send('POST', `/workspaces/${books.workspace_id}/members`, { user_id: ada.user_id })
    assert.equal(await seen(), true)
    const [person] = (await send<Page<PersonView>>('GET', '/people?limit=1')).items
    assert.deepEqual([person?.user_id, person?.org_roles], [ada.user_id, ['books']])
    assert.deepEqual(await send('DELETE', `/workspaces/${books.workspace_id}/members/${ada.user_id}`), {
      changed: true,
    })
    assert.equal(await seen(), false)
    await send('POST', `/people/${ada.user_id}/role`, { role: 'reader' })
    assert.equal((await send<MeView>('GET', '/me', undefined, key)).role, 'reader')
    await send('POST', `/people/${ada.user_id}/deactivate`, { reason: 'left' })
    assert.equal(await outcomeOf(await call(api.app, '/me', { key })), '401 unauthenticated')

    type Event = { event_type: string; actor: string }
    const audit = await send<Page<Event>>('GET', '/org/audit?limit=500')
    const ours = audit.items.map(({ event_type }) => event_type)
    for (const type of ['user_created', 'user_invited', 'invitation_redeemed', 'api_key_created', 'org_role_created'])
      assert.ok(ours.includes(type), type)
    for (const type of ['org_role_granted', 'org_role_revoked', 'user_role_changed', 'user_deactivated'])
      assert.ok(ours.includes(type), type)
    assert.ok(audit.items.every(({ actor }) => actor === 'system' || actor.startsWith('user_')))
    const foreign = await send<Page<Event>>(
      'GET',
      '/org/audit?event_type=user_invited',
      undefined,
      api.theirs.people.admin.key,
    )
    assert.deepEqual(foreign.items, [])
  })

  test('a key belongs to its creator and cannot name another person', async () => {
    const other = encodeId('user', api.ours.people.writer.principal.userId)
    const response = await call(api.app, '/keys', {
      method: 'POST',
      key: api.ours.people.admin.key,
      body: { name: 'k', role: 'reader', user_id: other },
    })
    assert.equal(await outcomeOf(response), '422 field_not_allowed')
  })

  test('bad input has its code', async () => {
    const key = api.ours.people.admin.key
    const self = encodeId('user', api.ours.people.admin.principal.userId)
    for (const [path, body, answer] of [
      ['/people', { external_id: '', role: 'reader' }, '422 api.field.value'],
      ['/people', { external_id: 'x', role: 'root' }, '422 api.field.value'],
      ['/people', { external_id: 'x', email: 'no', role: 'reader' }, '422 api.field.value'],
      ['/people', { external_id: 'x' }, '422 api.field.missing'],
      [`/people/${self}/role`, { role: 'reader' }, '403 identity.user.self'],
      ['/people/42/role', { role: 'reader' }, '400 id_format'],
      ['/invitations/redeem', { invitation: 'x' }, '401 identity.invitation.invalid'],
      ['/invitations/redeem', {}, '422 api.field.missing'],
    ] as const) {
      const open = path.startsWith('/invitations')
      const response = await call(api.app, path, { method: 'POST', body, ...(open ? {} : { key }) })
      assert.equal(await outcomeOf(response), answer, JSON.stringify([path, body]))
    }
  })
})
