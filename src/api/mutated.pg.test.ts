import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import fc from 'fast-check'
import { call, openTestApi, type TestApi } from '#test/api'

const paths = [
  '/me',
  '/workspaces',
  '/keys',
  '/keys/key_0197f3b2c4d57a8e9b0c1d2e3f405164',
  '/events',
  '/health',
  '/openapi.json',
  '/',
  '/nowhere',
]
const bodies = [
  { slug: 'mutant', name: 'Mutant', access_role: 'finance' },
  {
    name: 'k',
    role: 'reader',
    user_id: 'user_0197f3b2c4d57a8e9b0c1d2e3f405163',
    workspace_id: 'ws_0197f3b2c4d57a8e9b0c1d2e3f405162',
    expires_at: '2027-05-01T10:00:00Z',
  },
] as const

const odd = fc.constantFrom<unknown>(
  null,
  true,
  -1,
  0,
  1e308,
  0.1,
  '',
  ' ',
  '\u0000',
  '\ud800',
  '\u202e',
  "'; drop table identity.users; --",
  'x'.repeat(5_000),
  [],
  {},
  [[[]]],
  { a: 1 },
  'NaN',
  'infinity',
  '../../etc/passwd',
  '%00',
  '{{7*7}}',
  '${jndi:ldap://x}',
)
const text = fc.string({ unit: 'binary', maxLength: 30 })
const query = fc.array(
  fc.tuple(fc.constantFrom('limit', 'cursor', 'after', 'type', 'workspace_id', 'x', '__proto__'), text),
  { maxLength: 4 },
)
/** What a fetch can send at all: printable Latin-1. Worse is sent over raw sockets in server.pg.test.ts. */
const headerValue = fc.string({
  unit: fc
    .integer({ min: 0x20, max: 0xff })
    .filter((code) => code !== 0x7f)
    .map((code) => String.fromCharCode(code)),
  maxLength: 60,
})
const headers = fc.dictionary(
  fc.constantFrom(
    'content-type',
    'content-encoding',
    'x-request-id',
    'traceparent',
    'x-workspace',
    'x-workspace-id',
    'last-event-id',
    'accept',
    'origin',
    'x-http-method-override',
    'cookie',
  ),
  fc.oneof(headerValue, fc.constantFrom('application/json', 'gzip', 'identity', 'br', 'main', 'null', '0.0')),
  { maxKeys: 4 },
)

/** A right body with some fields changed, dropped or added; then perhaps cut or stretched as text. */
const body = fc
  .tuple(
    fc.constantFrom(...bodies),
    fc.dictionary(
      fc.oneof(fc.constantFrom('slug', 'name', 'role', 'user_id', 'workspace_id', 'expires_at', 'access_role'), text),
      fc.oneof(odd, fc.jsonValue()),
      { maxKeys: 4 },
    ),
    fc.nat(400),
    fc.oneof(fc.constant(''), text),
  )
  .map(([right, changes, cut, insert]) => {
    const whole = JSON.stringify({ ...right, ...changes })
    return insert === '' ? whole : whole.slice(0, cut) + insert + whole.slice(cut + insert.length)
  })

const request = fc.record({
  path: fc.oneof(
    fc.constantFrom(...paths),
    fc
      .tuple(fc.constantFrom(...paths), text)
      .map(([path, rest]) => `${path}/${encodeURIComponent(rest.toWellFormed())}`),
  ),
  query,
  method: fc.constantFrom('GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'HEAD', 'PROPFIND'),
  headers,
  body,
  credential: fc.constantFrom('admin', 'admin', 'admin', 'reader', 'none', 'bad'),
})

describe('mutated requests', () => {
  let api: TestApi
  before(async () => {
    api = await openTestApi({ defaultWorkspace: 'main' })
  })
  after(() => api.close())

  test('3,000 mutated requests cause no server error, and every refusal is a problem', async () => {
    const seen = new Map<number, number>()
    const run = async (given: typeof request extends fc.Arbitrary<infer T> ? T : never) => {
      const key = {
        admin: api.ours.people.admin.key,
        reader: api.ours.people.reader.key,
        none: undefined,
        bad: 'ck_x',
      }[given.credential]
      const search = new URLSearchParams(
        given.query.map(([name, value]): [string, string] => [name, value.toWellFormed()]),
      ).toString()
      const hasBody = given.method !== 'GET' && given.method !== 'HEAD'
      const response = await call(api.app, `${given.path}?${search}`, {
        method: given.method,
        key,
        headers: given.headers,
        ...(hasBody ? { body: given.body } : {}),
      })
      seen.set(response.status, (seen.get(response.status) ?? 0) + 1)
      if (response.status >= 500) assert.fail(`${response.status} ${await response.text()}`)
      if (response.status >= 400 && given.method !== 'HEAD') {
        const problem = (await response.json()) as Record<string, unknown>
        for (const field of ['type', 'title', 'status', 'detail', 'code', 'trace_id', 'request_id'])
          assert.ok(field in problem, field)
        assert.equal(problem['status'], response.status)
      } else await response.body?.cancel()
    }
    await fc.assert(fc.asyncProperty(request, run), { numRuns: 3_000 })
    assert.equal(
      api.log.some(({ level }) => level === 'error'),
      false,
    )
    // The long run must have reached the routes and their refusals, not only the outermost guard.
    const isLong = [...seen.values()].reduce((sum, count) => sum + count, 0) >= 3_000
    if (isLong)
      for (const status of [200, 400, 401, 403, 404, 405, 415, 422])
        assert.ok((seen.get(status) ?? 0) > 0, `no ${status} among ${JSON.stringify([...seen])}`)
    assert.equal((await call(api.app, '/health')).status, 200)
  })
})
