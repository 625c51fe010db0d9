import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'
import { refuse } from '#kernel/refusal'

describe('the guards before every route', () => {
  let api: TestApi
  before(async () => {
    api = await openTestApi({ defaultWorkspace: 'main' })
  })
  after(() => api.close())
  const admin = () => api.ours.people.admin.key

  type Operation = { readonly security?: readonly unknown[]; readonly requestBody?: unknown }
  async function operations(): Promise<{ method: string; path: string; operation: Operation }[]> {
    const document = (await (await call(api.app, '/openapi.json')).json()) as {
      paths: Record<string, Record<string, Operation>>
    }
    return Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({
        method: method.toUpperCase(),
        path: path.replaceAll(/\{.+?\}/g, 'x'),
        operation,
      })),
    )
  }

  test('[API-07] every route that is not declared open answers 401 without a credential, before reading a body', async () => {
    let closed = 0
    for (const { method, path, operation } of await operations()) {
      if (operation.security?.length === 0) continue
      closed += 1
      for (const authorization of [
        '',
        'Bearer',
        'Bearer ',
        'Basic YTpi',
        `Bearer ${admin()}x`,
        `Bearer ${admin()}, Bearer ${admin()}`,
        admin(),
      ]) {
        const response = await call(api.app, path, {
          method,
          headers: { authorization },
          ...(method === 'GET' ? {} : { body: '{"__proto__":1' }),
        })
        assert.equal(
          await outcomeOf(response),
          '401 unauthenticated',
          `${method} ${path} with ${JSON.stringify(authorization)}`,
        )
      }
    }
    assert.ok(closed >= 7)
  })

  test('[L3] a query parameter without a name is refused like any unknown one', async () => {
    for (const query of ['?=1', '?limit=5&=', '?%20=1', '?=1&=2'])
      assert.equal(await outcomeOf(await call(api.app, `/keys${query}`, { key: admin() })), '422 unknown_field', query)
  })

  test('2,000 bodies with prototype keys are refused on every route with a body', async () => {
    const keys = ['__proto__', 'constructor', 'prototype', '\\u005f_proto__', 'construc\\u0074or']
    const shapes = [
      (key: string) => `{"${key}":{"polluted":true}}`,
      (key: string) => `{"name":"x","${key}":null}`,
      (key: string) => `{"a":{"b":[{"${key}":{"polluted":true}}]}}`,
      (key: string) => `{"a":[[[{"c":{"${key}":1}}]]]}`,
    ]
    const targets = (await operations()).filter(({ method }) => method !== 'GET')
    assert.ok(targets.length >= 3)
    let sent = 0
    while (sent < 2_000) {
      for (const { method, path } of targets) {
        const body = shapes[sent % shapes.length]?.(keys[Math.floor(sent / shapes.length) % keys.length] ?? '') ?? ''
        const response = await call(api.app, path, { method, body, key: admin() })
        assert.equal(await outcomeOf(response), '400 key_forbidden', `${method} ${path} ${body}`)
        sent += 1
      }
    }
    assert.equal(({} as { polluted?: unknown }).polluted, undefined)
  })

  test('[PRM-19] a request without ids gets them; safe ids are kept, others replaced; a W3C trace continues', async () => {
    const ids = async (headers: Record<string, string>) => {
      const response = await call(api.app, '/nowhere', { headers })
      const problem = (await response.json()) as { request_id: string; trace_id: string }
      assert.equal(problem.request_id, response.headers.get('x-request-id'))
      assert.equal(problem.trace_id, response.headers.get('x-trace-id'))
      return problem
    }
    const made = await ids({})
    assert.match(made.request_id, /^req_[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}$/)
    assert.match(made.trace_id, /^trace_[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}$/)
    assert.notEqual((await ids({})).request_id, made.request_id)
    assert.equal((await ids({ 'x-request-id': 'build-7:1.2_x' })).request_id, 'build-7:1.2_x')
    for (const bad of ['', 'a b', 'x'.repeat(129), 'a"b', 'é', '<script>']) {
      assert.match((await ids({ 'x-request-id': bad })).request_id, /^req_/, bad)
    }
    const trace = '4bf92f3577b34da6a3ce929d0e0e4736'
    assert.equal((await ids({ traceparent: `00-${trace}-00f067aa0ba902b7-01` })).trace_id, `trace_${trace}`)
    for (const bad of [
      `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`,
      `00-${trace}-${'0'.repeat(16)}-01`,
      `ff-${trace}-00f067aa0ba902b7-01`,
      trace,
      `00-${trace.toUpperCase()}-00f067aa0ba902b7-01`,
    ]) {
      assert.notEqual((await ids({ traceparent: bad })).trace_id, `trace_${trace}`, bad)
    }
  })

  test('[SEC-06] the access log names caller and route, and contains no credential, query or body', async () => {
    api.log.length = 0
    const secret = 'planted-secret-9'
    await call(api.app, `/keys?cursor=${secret}`, { key: admin(), headers: { cookie: secret, 'x-workspace': secret } })
    await call(api.app, `/keys/${secret}`, { method: 'DELETE', key: admin() })
    await call(api.app, '/workspaces', {
      method: 'POST',
      key: admin(),
      body: { slug: secret.repeat(20), name: secret },
    })
    await call(api.app, '/me', { key: `ck_${secret}` })
    const text = JSON.stringify(api.log)
    assert.equal(text.includes(secret), false)
    assert.equal(text.includes(admin().slice(16)), false)
    assert.deepEqual(
      api.log.map(({ facts }) => [facts['method'], facts['route'], facts['status'], facts['user_id']]),
      [
        ['GET', '/keys', 400, api.ours.people.admin.principal.userId],
        ['DELETE', '/keys/:key_id', 400, api.ours.people.admin.principal.userId],
        ['POST', '/workspaces', 422, api.ours.people.admin.principal.userId],
        ['GET', '/me', 401, undefined],
      ],
    )
  })

  test('foreign host names are refused, which prevents DNS rebinding', async () => {
    for (const host of [
      'evil.example.com',
      'localhost.evil.com',
      '127.0.0.1.evil.com',
      'evil.com:80',
      '',
      'localhost@evil.com',
      '10.0.0.1',
    ]) {
      assert.equal(
        await outcomeOf(await call(api.app, '/health', { headers: { host } })),
        '403 api.host.not_allowed',
        host,
      )
    }
    for (const host of ['localhost', 'LOCALHOST:7420', '127.0.0.1:1', '[::1]:7420']) {
      assert.equal((await call(api.app, '/health', { headers: { host } })).status, 200, host)
    }
    const named = api.with({ hosts: ['concord.example.com'] })
    assert.equal((await call(named, '/health', { headers: { host: 'concord.example.com' } })).status, 200)
    assert.equal((await call(named, '/health', { headers: { host: 'evil.example.com' } })).status, 403)
    assert.equal(
      (await call(api.with({ hosts: 'any' }), '/health', { headers: { host: 'evil.example.com' } })).status,
      200,
    )
  })

  test('pages of other origins are refused, CORS is closed unless an origin is listed', async () => {
    for (const origin of ['https://evil.example.com', 'null', 'http://localhost:9999', 'http://localhost.evil.com']) {
      const response = await call(api.app, '/health', { headers: { host: 'localhost:7420', origin } })
      assert.equal(response.headers.get('access-control-allow-origin'), null)
      assert.equal(await outcomeOf(response), '403 api.origin.not_allowed', origin)
    }
    assert.equal(
      (await call(api.app, '/health', { headers: { host: 'localhost:7420', origin: 'http://localhost:7420' } })).status,
      200,
    )
    const listed = api.with({ origins: ['http://localhost:5173'] })
    const from = { host: 'localhost:7420', origin: 'http://localhost:5173' }
    assert.equal(
      (await call(listed, '/health', { headers: from })).headers.get('access-control-allow-origin'),
      from.origin,
    )
    const asked = await call(listed, '/keys', { method: 'OPTIONS', headers: from })
    assert.equal(asked.status, 204)
    assert.match(asked.headers.get('access-control-allow-headers') ?? '', /authorization/)
    assert.equal(asked.headers.get('access-control-allow-credentials'), null)
    assert.equal((await call(api.app, '/keys', { method: 'OPTIONS' })).status, 405)
  })

  test('every answer has the security headers', async () => {
    for (const response of [
      await call(api.app, '/health'),
      await call(api.app, '/nowhere'),
      await call(api.app, '/me', { key: admin() }),
      await call(api.app, '/reference'),
    ]) {
      assert.equal(response.headers.get('x-content-type-options'), 'nosniff')
      assert.equal(response.headers.get('x-frame-options'), 'DENY')
      assert.equal(response.headers.get('cache-control'), 'no-store')
      assert.match(response.headers.get('content-security-policy') ?? '', /^default-src 'none'/)
    }
  })

  test('a key above its rate is limited, others are not', async () => {
    const slow = api.with({ limits: { ratePerMinute: 60, rateBurst: 3 } })
    const ask = (key: string) => call(slow, '/me', { key })
    for (let at = 0; at < 3; at++) assert.equal((await ask(admin())).status, 200)
    const refused = await ask(admin())
    assert.equal(refused.headers.get('retry-after'), '1')
    assert.equal(refused.headers.get('ratelimit-policy'), '"key";q=3;w=3')
    assert.equal(refused.headers.get('ratelimit'), '"key";r=0;t=3')
    assert.equal(await outcomeOf(refused), '429 api.rate.exceeded')
    assert.equal((await ask(api.ours.people.reader.key)).status, 200)
    assert.equal((await call(slow, '/health')).status, 200)
  })

  test('a small rate has a small burst', async () => {
    const slow = api.with({ limits: { ratePerMinute: 2 } })
    const answers = await Promise.all([1, 2, 3].map(() => call(slow, '/me', { key: admin() })))
    assert.deepEqual(
      answers.map(({ status }) => status).sort((one, other) => one - other),
      [200, 200, 429],
    )
  })

  test('an internal error is a 500 with ids only; the log has the details', async () => {
    api.log.length = 0
    const broken = api.with({ authenticate: () => Promise.reject(new Error('secret stack')) })
    const response = await call(broken, '/me', { key: admin() })
    const text = await response.clone().text()
    assert.equal(await outcomeOf(response), '500 internal_error')
    assert.equal(/secret|stack|\.ts/.test(text), false)
    const line = api.log.find(({ level }) => level === 'error')
    assert.equal((line?.facts['err'] as Error | undefined)?.message, 'secret stack')
    assert.equal(line?.facts['requestId'], response.headers.get('x-request-id'))
  })

  test('an identity provider or database that does not answer is 503 with Retry-After', async () => {
    const away = api.with({ authenticate: () => Promise.resolve(refuse('identity.provider.unavailable', 'away')) })
    const response = await call(away, '/me', { key: admin() })
    assert.ok(response.headers.get('retry-after'))
    assert.equal(await outcomeOf(response), '503 identity.provider.unavailable')
    for (const code of ['53100', '25006', '53300', '40001', '40P01', '57P01']) {
      const failing = api.with({
        authenticate: () => Promise.reject(Object.assign(new Error('pg'), { code, severity: 'ERROR' })),
      })
      const refused = await call(failing, '/me', { key: admin() })
      assert.equal(refused.status, 503, code)
      assert.ok(Number(refused.headers.get('retry-after')) > 0)
    }
  })

  test('[L2] a query with NUL, or with a workspace that is no id, is refused on every route', async () => {
    for (const path of ['/org/audit?event_type=%00', '/keys?cursor=a%00', '/people?%00=1'])
      assert.equal(await outcomeOf(await call(api.app, path, { key: admin() })), '400 nul_character', path)
    for (const path of ['/me?workspace_id=', '/keys?workspace_id=main'])
      assert.equal(await outcomeOf(await call(api.app, path, { key: admin() })), '400 id_format', path)
  })

  test('routes of the composition root are behind the same guards', async () => {
    const app = api.with({
      extraRoutes: (more) =>
        more.get('/extra', (c) => c.text('up 1')).post('/raw', async (c) => c.text(await c.req.text())),
    })
    assert.equal((await call(app, '/extra')).status, 401)
    assert.equal((await call(app, '/extra', { key: api.ours.people.writer.key })).status, 403)
    assert.equal(await (await call(app, '/extra', { key: admin() })).text(), 'up 1')
    assert.equal((await call(app, '/extra', { method: 'POST', key: admin() })).status, 405)
    assert.equal(
      await (
        await call(app, '/raw', {
          method: 'POST',
          key: admin(),
          body: '[1]',
          headers: { 'content-type': 'text/plain' },
        })
      ).text(),
      '[1]',
    )
  })
})
