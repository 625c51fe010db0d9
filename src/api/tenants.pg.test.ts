import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { encodeId } from '#kernel/ids'
import { call, type Call, openTestApi, type TestApi } from '#test/api'

const ABSENT = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161'

/** Every place where a caller can send the id or name of another tenant. */
const places: readonly {
  readonly title: string
  readonly foreign: (api: TestApi) => string
  readonly send: (id: string) => readonly [string, Call]
}[] = [
  {
    title: 'key_id in DELETE /keys',
    foreign: (api) => encodeId('api_key', api.theirs.people.reader.keyId),
    send: (id) => [`/keys/${id}`, { method: 'DELETE' }],
  },
  {
    title: 'key_id as a UUID',
    foreign: (api) => api.theirs.people.admin.keyId,
    send: (id) => [`/keys/${id}`, { method: 'DELETE' }],
  },
  ...(['role', 'org-roles', 'deactivate', 'reactivate', 'invite'] as const).map((verb) => ({
    title: `user_id in POST /people/…/${verb}`,
    foreign: (api: TestApi) => encodeId('user', api.theirs.people.reader.principal.userId),
    send: (id: string) => {
      const body = { role: { role: 'writer' }, 'org-roles': { org_role: 'finance' } }[verb as string] ?? {}
      return [`/people/${id}/${verb}`, { method: 'POST', body }] as const
    },
  })),
  {
    title: 'workspace in POST /workspaces/…/members',
    foreign: (api) => encodeId('workspace', api.theirs.workspace.id),
    send: (id) => [
      `/workspaces/${id}/members`,
      { method: 'POST', body: { user_id: 'user_0197f3b2c4d57a8e9b0c1d2e3f405163' } },
    ],
  },
  {
    title: 'workspace_id in POST /keys',
    foreign: (api) => api.theirs.workspace.id,
    send: (id) => ['/keys', { method: 'POST', body: { name: 'k', role: 'reader', workspace_id: id } }],
  },
  {
    title: 'X-Workspace-ID',
    foreign: (api) => api.theirs.workspace.id,
    send: (id) => ['/events?after=0.0', { headers: { 'x-workspace-id': id } }],
  },
  {
    title: 'X-Workspace-ID with prefix',
    foreign: (api) => encodeId('workspace', api.theirs.workspace.id),
    send: (id) => ['/events?after=0.0', { headers: { 'x-workspace-id': id } }],
  },
  {
    title: 'workspace_id in the query',
    foreign: (api) => api.theirs.workspace.id,
    send: (id) => [`/events?after=0.0&workspace_id=${id}`, {}],
  },
]

describe('ids of another tenant', () => {
  let api: TestApi
  before(async () => {
    api = await openTestApi({ defaultWorkspace: 'main' })
  })
  after(() => api.close())

  async function ask(send: (id: string) => readonly [string, Call], id: string) {
    const [path, request] = send(id)
    const response = await call(api.app, path, { ...request, key: api.ours.people.admin.key })
    const { trace_id: _, request_id: __, ...body } = (await response.json()) as Record<string, unknown>
    return { status: response.status, body }
  }

  for (const { title, foreign, send } of places) {
    test(`[FLOW-108] [SEC-08] ${title}: 404, the same as for one that does not exist, and no trace`, async () => {
      const before_ = await api.fingerprint()
      const theirs = await ask(send, foreign(api))
      const absent = await ask(
        send,
        title.includes('prefix')
          ? encodeId('workspace', ABSENT)
          : title.includes('DELETE')
            ? encodeId('api_key', ABSENT)
            : ABSENT,
      )
      assert.equal(theirs.status, 404)
      assert.deepEqual(theirs, absent)
      assert.equal(await api.fingerprint(), before_)
    })
  }

  test('[SEC-08] lists hold nothing of the other tenant', async () => {
    for (const path of ['/keys?limit=500', '/workspaces?limit=500', '/me']) {
      const text = await (await call(api.app, path, { key: api.ours.people.admin.key })).text()
      for (const id of [
        api.theirs.orgId,
        api.theirs.workspace.id,
        ...Object.values(api.theirs.people).flatMap(({ principal, keyId }) => [principal.userId, keyId]),
      ]) {
        assert.equal(text.includes(id.replaceAll('-', '')), false, `${path} names ${id}`)
      }
    }
  })

  test('[MIS-323] the first place that names a workspace counts, and a foreign one there is not rescued', async () => {
    const { key } = api.ours.people.reader
    const own = { 'x-workspace': 'main' }
    const forged = await call(api.app, `/events?workspace_id=${api.ours.workspace.id}`, {
      key,
      headers: { ...own, 'x-workspace-id': api.theirs.workspace.id },
    })
    assert.equal(forged.status, 404)
    const fine = await call(api.app, `/events?workspace_id=${api.theirs.workspace.id}`, { key, headers: own })
    assert.equal(fine.status, 200)
    await fine.body?.cancel()
  })
})
