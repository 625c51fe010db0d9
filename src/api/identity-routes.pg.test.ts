import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'
import type { ApiKeyView, CreatedApiKeyView, MeView, WorkspaceView } from '#domains/identity'

type Page<T> = { readonly items: readonly T[]; readonly next_cursor: string | null }

describe('the routes of the identity room', () => {
  let api: TestApi
  before(async () => {
    api = await openTestApi({ defaultWorkspace: 'main' })
  })
  after(() => api.close())

  const read = async <T>(path: string, key: string): Promise<T> => {
    const response = await call(api.app, path, { key })
    assert.equal(response.status, 200, await response.clone().text())
    return (await response.json()) as T
  }

  test('[SUP-12] /me shows the caller with prefixed ids', async () => {
    const { key, principal } = api.ours.people.writer
    const me = await read<MeView>('/me', key)
    assert.match(me.user_id, /^user_[0-9a-f]{32}$/)
    assert.match(me.org_id, /^org_[0-9a-f]{32}$/)
    assert.equal(me.user_id.slice(5), principal.userId.replaceAll('-', ''))
    assert.equal(me.role, 'writer')
    assert.equal(me.workspace_id, null)
  })

  /** Written out: who may call what. */
  const matrix = [
    ['GET', '/me', undefined, { reader: '200 ok', writer: '200 ok', admin: '200 ok' }],
    ['GET', '/workspaces', undefined, { reader: '200 ok', writer: '200 ok', admin: '200 ok' }],
    ['POST', '/workspaces', { slug: 'made', name: 'Made' }, { reader: 'no', writer: 'no', admin: '201 ok' }],
    ['GET', '/keys', undefined, { reader: '200 ok', writer: '200 ok', admin: '200 ok' }],
    ['POST', '/keys', { name: 'k', role: 'reader' }, { reader: 'no', writer: 'no', admin: '201 ok' }],
    [
      'DELETE',
      '/keys/key_0197f3b2c4d57a8e9b0c1d2e3f405164',
      undefined,
      {
        reader: '404 identity.key.not_found',
        writer: '404 identity.key.not_found',
        admin: '404 identity.key.not_found',
      },
    ],
    [
      'GET',
      '/events?after=x',
      undefined,
      { reader: '400 cursor_invalid', writer: '400 cursor_invalid', admin: '400 cursor_invalid' },
    ],
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

  test('a key is shown once, works, is listed without its secret, and stops working when it is revoked', async () => {
    const { key: admin } = api.ours.people.admin
    const response = await call(api.app, '/keys', {
      method: 'POST',
      key: admin,
      body: { name: 'ci', role: 'writer', workspace_id: api.ours.workspace.id },
    })
    assert.equal(response.status, 201)
    assert.equal(response.headers.get('cache-control'), 'no-store')
    const created = (await response.json()) as CreatedApiKeyView
    assert.equal((await read<MeView>('/me', created.key)).workspace_id, created.workspace_id)
    const listed = await call(api.app, '/keys', { key: admin })
    const text = await listed.text()
    assert.ok(text.includes(created.prefix))
    assert.equal(text.includes(created.key.slice(16)), false)
    assert.equal(text.includes('hash'), false)
    const revoked = await call(api.app, `/keys/${created.key_id}`, { method: 'DELETE', key: admin })
    assert.notEqual(((await revoked.json()) as ApiKeyView).revoked_at, null)
    assert.equal(await outcomeOf(await call(api.app, '/me', { key: created.key })), '401 unauthenticated')
  })

  test('pages have no gap or overlap, and a cursor opens only its own list', async () => {
    const { key } = api.ours.people.admin
    for (const slug of ['p1', 'p2', 'p3', 'p4', 'p5'])
      await call(api.app, '/workspaces', { method: 'POST', key, body: { slug, name: slug } })
    const all = await read<Page<WorkspaceView>>('/workspaces?limit=500', key)
    const seen: string[] = []
    let cursor: string | null = null
    do {
      const page: Page<WorkspaceView> = await read(
        `/workspaces?limit=2${cursor === null ? '' : `&cursor=${cursor}`}`,
        key,
      )
      assert.ok(page.items.length <= 2)
      seen.push(...page.items.map(({ slug }) => slug))
      cursor = page.next_cursor
    } while (cursor !== null)
    assert.deepEqual(
      seen,
      all.items.map(({ slug }) => slug),
    )
    const first = await read<Page<WorkspaceView>>('/workspaces?limit=1', key)
    assert.ok(first.next_cursor)
    assert.equal(
      await outcomeOf(await call(api.app, `/keys?cursor=${first.next_cursor}`, { key })),
      '400 cursor_invalid',
    )
    const stranger = await call(api.app, `/workspaces?cursor=${first.next_cursor}`, {
      key: api.theirs.people.admin.key,
    })
    assert.equal(await outcomeOf(stranger), '400 cursor_invalid')
  })

  test('keys are paged newest first', async () => {
    const { key } = api.ours.people.admin
    const all = await read<Page<ApiKeyView>>('/keys?limit=500', key)
    const one = await read<Page<ApiKeyView>>('/keys?limit=1', key)
    const two = await read<Page<ApiKeyView>>(`/keys?limit=1&cursor=${one.next_cursor}`, key)
    assert.deepEqual(
      [...one.items, ...two.items].map(({ key_id }) => key_id),
      all.items.slice(0, 2).map(({ key_id }) => key_id),
    )
  })

  test('a short name is taken once', async () => {
    const body = { slug: 'taken', name: 'Taken' }
    const send = () =>
      call(api.app, '/workspaces', { method: 'POST', key: api.ours.people.admin.key, body }).then(outcomeOf)
    const answers = await Promise.all(Array.from({ length: 8 }, send))
    assert.deepEqual(answers.sort(), [
      '201 ok',
      ...Array.from({ length: 7 }, () => '409 identity.workspace.slug_taken'),
    ])
  })

  test('a key bound to a workspace creates no workspace and no wider key', async () => {
    const body = { name: 'bound', role: 'admin', workspace_id: api.ours.workspace.id }
    const created = await call(api.app, '/keys', { method: 'POST', key: api.ours.people.admin.key, body })
    const { key } = (await created.json()) as CreatedApiKeyView
    const workspace = await call(api.app, '/workspaces', {
      method: 'POST',
      key,
      body: { slug: 'wider', name: 'Wider' },
    })
    assert.equal(await outcomeOf(workspace), '403 identity.key.workspace_bound')
    const wider = await call(api.app, '/keys', { method: 'POST', key, body: { name: 'wider', role: 'reader' } })
    assert.equal(await outcomeOf(wider), '403 identity.key.workspace_bound')
  })
})
