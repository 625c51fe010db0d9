import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'

/** A case of the list of bad inputs: what is sent to `POST /workspaces` or to another place, and the answer it must get. */
type Case = {
  readonly title: string
  readonly answer: string
  readonly path?: string | ((api: TestApi) => string)
  readonly method: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>> | ((api: TestApi) => Readonly<Record<string, string>>)
  readonly detail?: RegExp
}

const good = { slug: 'bad-input', name: 'Bad input' }
const post = { path: '/workspaces', method: 'POST' } as const
const get = { method: 'GET' } as const
const nested = (levels: number) => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`
const aUuid = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161'

const cases: readonly Case[] = [
  { title: '1 empty body', ...post, body: '', answer: '400 body_missing', detail: /Send a JSON object/ },
  { title: '1 blank body', ...post, body: ' \n', answer: '400 body_missing' },
  {
    title: '2 trailing comma',
    ...post,
    body: '{"slug":"x",}',
    answer: '400 json_syntax',
    detail: /[Ll]ine 1.*column 13|1:13/,
  },
  { title: '2 not JSON at all', ...post, body: 'slug=x', answer: '400 json_syntax' },
  { title: '2 byte order mark', ...post, body: '\ufeff{}', answer: '400 json_syntax' },
  { title: '3 list at the top', ...post, body: '[]', answer: '400 json_not_object' },
  { title: '3 string at the top', ...post, body: '"x"', answer: '400 json_not_object' },
  { title: '4 33 levels', ...post, body: nested(33), answer: '400 json_too_deep', detail: /32/ },
  { title: '4 100,000 levels', ...post, body: nested(100_000), answer: '400 json_too_deep' },
  {
    title: '5 1 MiB and a byte',
    ...post,
    body: `{"name":"${'x'.repeat(1_048_567)}"}`,
    answer: '413 body_too_large',
    detail: /1048576/,
  },
  {
    title: '8 gzip bomb',
    ...post,
    body: gzipSync(Buffer.alloc(50_000_000)),
    headers: { 'content-encoding': 'gzip' },
    answer: '413 body_too_large',
    detail: /after decompression/,
  },
  {
    title: '9 packed in layers',
    ...post,
    body: '{}',
    headers: { 'content-encoding': 'br, gzip, br' },
    answer: '415 encoding_unsupported',
  },
  { title: '10 text/plain', ...post, body: '{}', headers: { 'content-type': 'text/plain' }, answer: '415 media_type' },
  {
    title: '10 charset utf-16',
    ...post,
    body: '{}',
    headers: { 'content-type': 'application/json; charset=utf-16' },
    answer: '415 media_type',
  },
  {
    title: '10 a form',
    ...post,
    body: 'slug=x',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    answer: '415 media_type',
  },
  {
    title: '10 several types',
    ...post,
    body: '{}',
    headers: { 'content-type': 'application/json, text/plain' },
    answer: '415 media_type',
  },
  {
    title: '11 duplicate keys',
    ...post,
    body: '{"slug":"a","slug":"b"}',
    answer: '400 json_duplicate_key',
    detail: /slug/,
  },
  { title: '12 __proto__', ...post, body: '{"__proto__":{"x":1}}', answer: '400 key_forbidden' },
  { title: '12 constructor deep inside', ...post, body: '{"a":[{"constructor":{}}]}', answer: '400 key_forbidden' },
  { title: '12 prototype in escapes', ...post, body: '{"\\u0070rototype":{}}', answer: '400 key_forbidden' },
  { title: '13 NUL in a string', ...post, body: '{"name":"a\\u0000b"}', answer: '400 nul_character', detail: /name/ },
  { title: '14 half of a pair', ...post, body: '{"name":"\\ud800"}', answer: '400 invalid_unicode' },
  {
    title: '14 bytes that are no UTF-8',
    ...post,
    body: Buffer.from([0x7b, 0xff, 0x7d]),
    answer: '400 invalid_unicode',
  },
  { title: '15 1e400', ...post, body: '{"name":1e400}', answer: '400 number_out_of_range', detail: /string/ },
  { title: '15 9007199254740993', ...post, body: '{"name":9007199254740993}', answer: '400 number_out_of_range' },
  {
    title: '16 unknown field',
    ...post,
    body: { ...good, acces_role: 'x' },
    answer: '422 unknown_field',
    detail: /Did you mean `access_role`\?/,
  },
  {
    title: '16 unknown query field',
    path: '/keys?limt=5',
    ...get,
    answer: '422 unknown_field',
    detail: /Did you mean `limit`\?/,
  },
  { title: '24 invalid id', path: '/keys/nonsense', method: 'DELETE', answer: '400 id_format' },
  { title: '24 id in braces', path: `/keys/{${aUuid}}`, method: 'DELETE', answer: '400 id_format' },
  { title: '24 id in upper case', path: `/keys/${aUuid.toUpperCase()}`, method: 'DELETE', answer: '400 id_format' },
  {
    title: '24 id of another kind',
    path: `/keys/user_${aUuid.replaceAll('-', '')}`,
    method: 'DELETE',
    answer: '400 id_format',
  },
  { title: '24 id with NUL', path: '/keys/%00', method: 'DELETE', answer: '400 id_format' },
  {
    title: '25 key of another organisation',
    path: (api) => `/keys/${api.theirs.people.reader.keyId}`,
    method: 'DELETE',
    answer: '404 identity.key.not_found',
  },
  {
    title: '26 forged X-Workspace-ID',
    path: '/events',
    ...get,
    headers: (api) => ({ 'x-workspace-id': api.theirs.workspace.id }),
    answer: '404 workspace_unknown',
  },
  {
    title: '27 requester in the body',
    ...post,
    body: { ...good, requested_by: 'someone' },
    answer: '422 field_not_allowed',
  },
  ...['-1', '0', '1000000000', 'abc', '1e3', '0x10', '', '501', '1&limit=2'].map((limit) => ({
    title: `36 limit=${limit}`,
    path: `/keys?limit=${limit}`,
    ...get,
    answer: limit.includes('&') ? '422 api.field.type' : '422 limit_range',
  })),
  { title: '37 invalid cursor', path: '/keys?cursor=abc', ...get, answer: '400 cursor_invalid' },
  { title: '37 invalid stream cursor', path: '/events?after=1', ...get, answer: '400 cursor_invalid' },
  {
    title: '37 invalid Last-Event-ID',
    path: '/events',
    ...get,
    headers: { 'last-event-id': "1.1'; drop table" },
    answer: '400 cursor_invalid',
  },
  {
    title: '38 30 February',
    path: '/keys',
    method: 'POST',
    body: { name: 'k', role: 'reader', expires_at: '2026-02-30T00:00:00Z' },
    answer: '422 date_invalid',
  },
  {
    title: '39 in the past',
    path: '/keys',
    method: 'POST',
    body: { name: 'k', role: 'reader', expires_at: '2020-01-01T00:00:00Z' },
    answer: '422 time_range',
  },
  {
    title: '39 infinity',
    path: '/keys',
    method: 'POST',
    body: { name: 'k', role: 'reader', expires_at: 'infinity' },
    answer: '422 time_range',
  },
  {
    title: '39 year 300000',
    path: '/keys',
    method: 'POST',
    body: { name: 'k', role: 'reader', expires_at: '+300000-01-01T00:00:00Z' },
    answer: '422 time_range',
  },
  {
    title: '40 PUT on a POST route',
    path: '/workspaces',
    method: 'PUT',
    body: good,
    answer: '405 api.method.not_allowed',
  },
  {
    title: '40 method override is ignored',
    path: '/keys',
    method: 'GET',
    headers: { 'x-http-method-override': 'POST', 'x-method-override': 'DELETE' },
    answer: '200 ok',
  },
  { title: '42 encoded slash', path: '/keys/..%2fworkspaces', ...get, answer: '404 api.route.not_found' },
  { title: '42 encoded backslash', path: '/keys/..%5cworkspaces', ...get, answer: '404 api.route.not_found' },
  { title: '42 two slashes', path: 'http://localhost//workspaces', ...get, answer: '404 api.route.not_found' },
  { title: '42 slash at the end', path: '/workspaces/', ...get, answer: '404 api.route.not_found' },
  {
    title: 'role that does not exist',
    path: '/keys',
    method: 'POST',
    body: { name: 'k', role: 'root' },
    answer: '422 api.field.value',
    detail: /reader, writer, admin/,
  },
  { title: 'missing field', ...post, body: { slug: 'x' }, answer: '422 api.field.missing', detail: /name/ },
  { title: 'number in place of text', ...post, body: { ...good, name: 7 }, answer: '422 api.field.type' },
  { title: 'short name in capitals', ...post, body: { ...good, slug: 'Bad' }, answer: '422 api.field.value' },
  {
    title: 'name with a hidden character',
    ...post,
    body: { ...good, name: 'a\u202eb' },
    answer: '422 api.field.value',
  },
  {
    title: 'access role that does not exist',
    ...post,
    body: { ...good, access_role: 'none' },
    answer: '404 identity.org_role.not_found',
  },
  {
    title: 'a person who does not exist',
    path: `/people/${aUuid}/role`,
    method: 'POST',
    body: { role: 'reader' },
    answer: '404 identity.user.not_found',
  },
  {
    title: 'body on a route that takes none',
    path: `/keys/${aUuid}`,
    method: 'DELETE',
    body: { force: true },
    answer: '422 unknown_field',
  },
  { title: 'invalid event type', path: '/events?type=a,,b', ...get, answer: '422 api.field.value' },
]

describe('bad inputs, each with the answer it must get', () => {
  let api: TestApi
  let before_: string
  before(async () => {
    api = await openTestApi({ defaultWorkspace: 'main' })
    before_ = await api.fingerprint()
  })
  after(() => api.close())

  for (const { title, answer, path = '/workspaces', method, body, headers, detail } of cases) {
    test(title, async () => {
      const address = typeof path === 'function' ? path(api) : path
      const response = await call(api.app, address, {
        method,
        key: api.ours.people.admin.key,
        body,
        headers: typeof headers === 'function' ? headers(api) : (headers ?? {}),
      })
      const copy = response.clone()
      assert.equal(await outcomeOf(response), answer)
      if (detail) assert.match(await copy.text(), detail)
      if (response.status >= 400) assert.ok(response.headers.get('x-request-id'))
    })
  }

  test('none of them wrote anything', async () => assert.equal(await api.fingerprint(), before_))

  test('405 says what is allowed', async () => {
    const response = await call(api.app, '/keys', { method: 'PATCH', key: api.ours.people.admin.key })
    assert.equal(response.headers.get('allow'), 'HEAD, GET, POST')
  })

  test('no answer repeats more than 64 characters of what was sent', async () => {
    const long = 'q'.repeat(500)
    const sent = [
      call(api.app, '/workspaces', {
        method: 'POST',
        key: api.ours.people.admin.key,
        body: { [long]: 1, slug: long, name: long.repeat(3), access_role: long },
      }),
      call(api.app, `/keys/${long}`, { method: 'DELETE', key: api.ours.people.admin.key }),
      call(api.app, `/keys?limit=${long}&cursor=${long}&${long}=1`, { key: api.ours.people.admin.key }),
      call(api.app, `/${long}`, { key: api.ours.people.admin.key }),
      call(api.app, '/me', { key: `ck_${long}` }),
      call(api.app, '/events', { key: api.ours.people.admin.key, headers: { 'x-workspace': long } }),
    ]
    for (const response of await Promise.all(sent)) {
      assert.ok(response.status >= 400)
      assert.equal((await response.text()).includes('q'.repeat(65)), false)
    }
  })
})
