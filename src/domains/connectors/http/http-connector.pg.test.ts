/** How the HTTP connector proves who it is, fills its requests, and names what went wrong. */
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { openTestGate, type TestGate, testSecrets } from '#test/connectors'
import { type ApiMode, type MisbehavingApi, openMisbehavingApi } from '#test/misbehaving-api'
import { selfSigned } from '#test/self-signed'
import { checkConnector } from '../check-connector.ts'
import type { AuthMode } from '../connector.ts'
import { httpConnector, type HttpConnectorInput } from './http-connector.ts'

const SECRET = 'ada:canary-secret-0123456789'

const operations = (timeout_ms = 30_000): HttpConnectorInput['operations'] => [
  {
    name: 'put',
    description: 'Puts a thing.',
    method: 'PUT',
    path: '/things/{id}',
    query: ['page'],
    input: z.strictObject({ id: z.string(), page: z.string().optional(), name: z.string().optional() }),
    output: z.looseObject({}),
    side_effect_class: 'keyed',
    timeout_ms,
  },
  {
    name: 'get',
    description: 'Gets a thing.',
    method: 'GET',
    path: '/things/{id}',
    input: z.strictObject({ id: z.string() }),
    output: z.looseObject({}),
    side_effect_class: 'none',
    timeout_ms,
  },
]

describe('http connector', () => {
  let gate: TestGate
  let api: MisbehavingApi
  let other: MisbehavingApi

  before(async () => {
    api = await openMisbehavingApi()
    other = await openMisbehavingApi()
    const declare = (name: string, mode: AuthMode) =>
      httpConnector({
        name,
        description: 'An API.',
        base_url: `${api.url}/base/`,
        auth:
          mode === 'none'
            ? {}
            : {
                mode,
                secret_ref: 'vault://api',
                client_id: 'concord',
                token_url: `${other.url}/token`,
                scopes: ['a', 'b'],
              },
        reach: { allow_http: true, private_networks: ['127.0.0.1'], ports: [api.port, other.port] },
        breaker: { failures: 1_000, open_ms: 1 },
        operations: operations(),
      })
    const modes: AuthMode[] = ['none', 'api_key', 'bearer', 'basic', 'hmac', 'oauth_client_credentials']
    gate = await openTestGate(
      modes.map((mode) => declare(mode.replace('oauth_client_credentials', 'oauth'), mode)),
      testSecrets({ api: SECRET }),
    )
  })
  after(async () => {
    await gate.close()
    await api.close()
    await other.close()
  })

  async function send(connector: string, capability: string, input: Record<string, string>, mode: ApiMode = 'honest') {
    api.mode = mode
    api.requests.length = 0
    const result = await gate.call(connector, capability, input, { context: { idempotency_key: 'key:1' } })
    return { result, request: api.requests[0], count: api.requests.length }
  }

  test('a request is filled from its input: path, query, body and key, each in its place', async () => {
    const { request } = await send('none', 'put', { id: 'a/../b?x#y', page: 'p&q=1', name: 'n' })
    assert.deepEqual(
      [request?.method, request?.url, request?.body, request?.headers['idempotency-key']],
      ['PUT', '/base/things/a%2F..%2Fb%3Fx%23y?page=p%26q%3D1', '{"name":"n"}', 'key:1'],
    )
    for (const id of ['..', '.', '']) {
      const refused = await send('none', 'put', { id })
      assert.deepEqual([refused.result.error?.happened, refused.count], ['no', 0], id)
    }
  })

  test('each way to prove who one is', async () => {
    assert.equal((await send('api_key', 'put', { id: '1' })).request?.headers['x-api-key'], SECRET)
    assert.equal((await send('bearer', 'put', { id: '1' })).request?.headers.authorization, `Bearer ${SECRET}`)
    const basic = (await send('basic', 'put', { id: '1' })).request?.headers.authorization ?? ''
    assert.equal(Buffer.from(basic.slice('Basic '.length), 'base64').toString(), SECRET)
    const signed = (await send('hmac', 'put', { id: '1', name: 'n' })).request
    const text = [String(signed?.headers['x-timestamp']), 'PUT', '/base/things/1', '{"name":"n"}'].join('\n')
    assert.equal(signed?.headers['x-signature'], `sha256=${createHmac('sha256', SECRET).update(text).digest('hex')}`)
  })

  test('a token of client credentials is asked for once, kept in memory, and asked for anew when it is refused', async () => {
    other.requests.length = 0
    for (let times = 0; times < 3; times += 1) await send('oauth', 'put', { id: '1' })
    assert.equal(other.requests.length, 1)
    assert.deepEqual(Object.fromEntries(new URLSearchParams(other.requests[0]?.body)), {
      grant_type: 'client_credentials',
      client_id: 'concord',
      client_secret: SECRET,
      scope: 'a b',
    })
    const refused = await send('oauth', 'put', { id: '1' }, 'unauthorized')
    assert.deepEqual(
      [refused.result.error?.error_class, refused.count, other.requests.length],
      ['permission_denied', 2, 2],
    )
  })

  test('a credential does not follow a redirect to another origin', async (t) => {
    const hop = await openMisbehavingApi()
    const moved = httpConnector({
      name: 'moved',
      description: 'An API that has moved.',
      base_url: api.url,
      auth: { mode: 'bearer', secret_ref: 'vault://api' },
      reach: { allow_http: true, private_networks: ['127.0.0.1'], ports: [api.port, hop.port] },
      operations: operations(),
    })
    const own = await openTestGate([moved], testSecrets({ api: SECRET }))
    t.after(async () => {
      await own.close()
      await hop.close()
    })
    api.mode = 'echo_redirect'
    api.requests.length = 0
    const same = await own.call('moved', 'get', { id: '1' })
    assert.equal(same.error?.error_class, 'validation_error', 'it goes in a circle')
    assert.deepEqual(
      [api.requests.length, api.requests.every(({ headers }) => headers.authorization !== undefined)],
      [4, true],
    )
    api.mode = 'moved'
    api.movedTo = `${hop.url}/there`
    const followed = await own.call('moved', 'get', { id: '1' })
    assert.equal(followed.ok, true)
    assert.deepEqual(
      hop.requests.map(({ url, headers }) => [url, headers.authorization]),
      [['/there', undefined]],
    )
  })

  test('a credential does not go to an address that the input names, unless it is of the own origin', async (t) => {
    const stranger = await openMisbehavingApi()
    const fetching = httpConnector({
      name: 'fetching',
      description: 'Fetches any address.',
      base_url: api.url,
      auth: { mode: 'bearer', secret_ref: 'vault://api' },
      reach: { hosts: ['*'], allow_http: true, private_networks: ['127.0.0.1'], ports: [api.port, stranger.port] },
      operations: [
        {
          name: 'fetch',
          description: 'Fetches it.',
          method: 'GET',
          url_from: 'url',
          input: z.strictObject({ url: z.string() }),
          output: z.looseObject({}),
          side_effect_class: 'none',
        },
      ],
    })
    const own = await openTestGate([fetching], testSecrets({ api: SECRET }))
    t.after(async () => {
      await own.close()
      await stranger.close()
    })
    api.mode = 'honest'
    api.requests.length = 0
    for (const { url } of [api, stranger])
      assert.equal((await own.call('fetching', 'fetch', { url: `${url}/x` })).ok, true)
    assert.equal(api.requests[0]?.headers.authorization, `Bearer ${SECRET}`)
    assert.deepEqual(
      stranger.requests.map(({ headers }) => headers.authorization),
      [undefined],
    )
  })

  test('a key that no header can carry is refused before anything is sent', async () => {
    api.requests.length = 0
    for (const idempotency_key of ['ticket:\u4e1c\u4eac', 'a\r\nx-admin: 1']) {
      const refused = await gate.call('none', 'put', { id: '1' }, { context: { idempotency_key } })
      assert.deepEqual([refused.error?.error_class, refused.error?.happened], ['validation_error', 'no'])
    }
    assert.equal(api.requests.length, 0)
  })

  test('[CON-12] what the provider says becomes a class, and whether anything can have happened', async (t) => {
    const cases: [ApiMode, string, string][] = [
      ['fail_before', 'transient_connector_error', 'unknown'],
      ['fail_after', 'transient_connector_error', 'unknown'],
      ['cut_after', 'transient_connector_error', 'unknown'],
      ['not_json', 'transient_connector_error', 'unknown'],
      ['not_utf8', 'transient_connector_error', 'unknown'],
      ['compressed', 'transient_connector_error', 'unknown'],
      ['oversized', 'transient_connector_error', 'unknown'],
      ['unauthorized', 'permission_denied', 'no'],
      ['rate_limited', 'rate_limited', 'no'],
      ['echo_error', 'validation_error', 'no'],
      ['echo_redirect', 'validation_error', 'unknown'],
    ]
    for (const [mode, errorClass, happened] of cases) {
      const { result } = await send('none', 'put', { id: '1' }, mode)
      assert.deepEqual([result.error?.error_class, result.error?.happened], [errorClass, happened], mode)
    }
    assert.equal((await send('none', 'put', { id: '1' }, 'rate_limited')).result.error?.retry_after_ms, 7_000)
    const gone = httpConnector({
      name: 'gone',
      description: 'Nobody.',
      base_url: 'http://127.0.0.1:1',
      reach: { allow_http: true, private_networks: ['127.0.0.1'] },
      operations: operations(),
    })
    const own = await openTestGate([gone])
    t.after(() => own.close())
    const refused = await own.call('gone', 'put', { id: '1' })
    assert.deepEqual([refused.error?.error_class, refused.error?.happened], ['transient_connector_error', 'no'])
  })

  test('over TLS the name is proven, although an address is dialled; another name or an unknown authority is no connection', async () => {
    const { key, cert } = selfSigned('api.test')
    const server = createServer({ key, cert }, (request, response) =>
      response.end(JSON.stringify({ host: request.headers.host })),
    )
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    const { port } = server.address() as AddressInfo
    const declare = (name: string, host: string, ca?: string) =>
      httpConnector({
        name,
        description: 'An API.',
        base_url: `https://${host}:${port}`,
        reach: { private_networks: ['127.0.0.1'] },
        resolve: () => Promise.resolve([{ address: '127.0.0.1', family: 4 }]),
        operations: operations(),
        ...(ca === undefined ? {} : { ca }),
      })
    const own = await openTestGate([
      declare('right', 'api.test', cert),
      declare('wrong', 'bank.test', cert),
      declare('unknown', 'api.test'),
    ])
    const right = await own.call('right', 'get', { id: '1' })
    assert.deepEqual(right.output, { host: `api.test:${port}` })
    for (const name of ['wrong', 'unknown']) {
      const { error } = await own.call(name, 'put', { id: '1' })
      assert.deepEqual([error?.error_class, error?.happened], ['transient_connector_error', 'no'], name)
    }
    await own.close()
    await new Promise((done) => server.close(done))
  })

  test('a declaration that cannot work is refused before it is ever called', () => {
    const flawed: [Partial<HttpConnectorInput>, RegExp][] = [
      [{ base_url: 'http://plain.test' }, /scheme/],
      [{ base_url: 'not an address' }, /host|port|scheme|not a URL|address/],
      [{ base_url: 'https://127.0.0.1' }, /loopback/],
      [{ base_url: 'https://api.test/?q=1' }, /query/],
      [{ base_url: 'https://user:password@api.test' }, /user name/],
      [{ reach: { private_networks: ['10.0.0.0/99'] } }, /range/],
      [{ auth: { mode: 'oauth_client_credentials', secret_ref: 'vault://x' } }, /token_url/],
      [{ headers: { authorization: 'Bearer abcdefgh12345678' } }, /secret/],
      [{ operations: operations().map((each) => ({ ...each, path: 'no-slash' })) }, /must start with/],
      [{ operations: operations().map((each) => ({ ...each, path: '/a/../b' })) }, /as a segment/],
      [
        { operations: operations().map((each) => ({ ...each, method: 'GET' as const, key_in_answer: 'key' })) },
        /no idempotency key to repeat/,
      ],
      [
        {
          operations: operations().map((each) => ({
            ...each,
            method: 'POST' as const,
            side_effect_class: 'opaque' as const,
            key_in_answer: 'key',
          })),
        },
        /put has key_in_answer but no idempotency key to repeat/,
      ],
      [
        {
          operations: operations().map((each) => ({
            ...each,
            method: 'GET' as const,
            side_effect_class: 'keyed' as const,
          })),
        },
        /declares a side effect/,
      ],
    ]
    for (const [change, message] of flawed) {
      const findings = checkConnector(
        httpConnector({
          name: 'api',
          description: 'An API.',
          base_url: 'https://api.test',
          operations: operations(),
          ...change,
        }),
      )
      assert.match(findings.map((each) => each.message).join('; '), message)
    }
    assert.deepEqual(
      checkConnector(
        httpConnector({ name: 'api', description: 'An API.', base_url: 'https://api.test', operations: operations() }),
      ),
      [],
    )
  })
})
