import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { openTestApi, type TestApi } from '#test/api'
import { openChance } from '#test/chance'
import { type ServedApi, serve, serverOptions } from './server.ts'

type Answer = { readonly status: number; readonly head: string; readonly body: string; readonly closed: boolean }

describe('over a real socket', () => {
  let api: TestApi
  let served: ServedApi
  /** Gives up soon what never comes; the other one waits, as long as a busy machine may need. */
  let hurried: ServedApi
  before(async () => {
    const limits = { ratePerMinute: 6e6, rateBurst: 1e6, bodyTimeoutMs: 60_000 }
    api = await openTestApi({ defaultWorkspace: 'main', limits })
    const start = (app: TestApi['app'], requestTimeout: number) => {
      const options = { headersTimeout: requestTimeout, requestTimeout, connectionsCheckingInterval: 50 }
      return serve(app, { host: '127.0.0.1', port: 0, randomBytes: (count) => randomBytes(count), options })
    }
    served = await start(api.app, 90_000)
    hurried = await start(api.with({ limits: { ...limits, bodyTimeoutMs: 1_000 } }), 1_500)
  })
  after(async () => {
    await served.close(0)
    await hurried.close(0)
    await api.close()
  })

  /** Sends bytes as they are and reads until the server closes or has said all it announced. */
  function send(
    parts: readonly (string | Uint8Array)[],
    { waitForClose = true, thenEnd = false, to = served } = {},
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const socket = connect(to.port, '127.0.0.1')
      let text = ''
      const done = (closed: boolean) => {
        socket.destroy()
        const [head = '', ...rest] = text.split('\r\n\r\n')
        resolve({
          status: Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1] ?? 0),
          head: head.toLowerCase(),
          body: rest.join('\r\n\r\n'),
          closed,
        })
      }
      socket.on('connect', () => {
        for (const part of parts) socket.write(part)
        if (thenEnd) socket.end()
      })
      socket.on('data', (chunk) => {
        text += chunk.toString('latin1')
        const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? Number.NaN)
        if (!waitForClose && text.length - text.indexOf('\r\n\r\n') - 4 >= length) done(false)
      })
      socket.on('close', () => done(true))
      // What is still being sent when the server closes is refused by the kernel; the answer was read before.
      socket.on('error', (error: NodeJS.ErrnoException) =>
        error.code === 'ECONNRESET' || error.code === 'EPIPE' ? done(true) : reject(error),
      )
    })
  }
  const host = () => `Host: 127.0.0.1:${served.port}\r\n`
  const head = (line: string, more = '') =>
    `${line} HTTP/1.1\r\n${host()}Authorization: Bearer ${api.ours.people.admin.key}\r\n${more}`
  const json = 'Content-Type: application/json\r\n'
  const codeOf = (answer: Answer) => `${answer.status} ${(JSON.parse(answer.body) as { code: string }).code}`

  function assertProblem(answer: Answer, expected: string): void {
    assert.equal(codeOf(answer), expected)
    assert.match(answer.head, /content-type: application\/problem\+json/)
    assert.match(answer.body, /"trace_id":"trace_[0-9a-f]{32}","request_id":"req_[0-9a-f]{32}"/)
    assert.equal(/\.ts|node:|\\n +at /.test(answer.body), false)
  }

  test('a good request is answered, and the connection serves the next one', async () => {
    const one = head('GET /me', '\r\n')
    const answer = await send([one], { waitForClose: false })
    assert.equal(answer.status, 200)
    const both = await send([
      head('POST /workspaces', `${json}Content-Length: 2\r\n\r\n{}`),
      head('GET /me', 'Connection: close\r\n\r\n'),
    ])
    assert.equal(both.status, 422)
    assert.match(both.body, /HTTP\/1\.1 200/)
  })

  test('input 5: a body announced above 1 MiB is refused immediately and the connection closed', async () => {
    const answer = await send([head('POST /workspaces', `${json}Content-Length: 1073741824\r\n\r\n`), '{"name":"'])
    assertProblem(answer, '413 body_too_large')
    assert.match(answer.head, /connection: close/)
    assert.equal(answer.closed, true)
  })

  test('input 5: an unannounced body is stopped at 1 MiB', async () => {
    const chunk = `10000\r\n${'x'.repeat(65_536)}\r\n`
    const answer = await send([
      head('POST /workspaces', `${json}Transfer-Encoding: chunked\r\n\r\n`),
      ...Array.from({ length: 18 }, () => chunk),
    ])
    assertProblem(answer, '413 body_too_large')
    assert.equal(answer.closed, true)
  })

  test('input 6: a body that stops half way is a 408', async () => {
    const answer = await send([head('POST /workspaces', `${json}Content-Length: 10\r\n\r\n{"a":`)], { to: hurried })
    assertProblem(answer, '408 request_timeout')
    assert.equal(answer.closed, true)
  })

  test('input 6: so is a head that never ends', async () => {
    assertProblem(await send([`GET /me HTTP/1.1\r\n${host()}X-Slow: `], { to: hurried }), '408 request_timeout')
  })

  test('input 6: the limits that the product runs with stay below ten seconds', () => {
    assert.ok(Number(serverOptions.requestTimeout) + Number(serverOptions.connectionsCheckingInterval) < 10_000)
    assert.ok(Number(serverOptions.headersTimeout) + Number(serverOptions.connectionsCheckingInterval) < 10_000)
    assert.equal(serverOptions.insecureHTTPParser, false)
  })

  test('input 7: headers above 16 KiB are 431', async () => {
    assertProblem(await send([head('GET /me', `X-Large: ${'x'.repeat(17_000)}\r\n\r\n`)]), '431 api.headers.too_large')
    const many = Array.from({ length: 1_000 }, (_, at) => `X-${at}: 0123456789\r\n`).join('')
    assertProblem(await send([head('GET /me', `${many}\r\n`)]), '431 api.headers.too_large')
  })

  test('input 41: two body lengths are a 400 and close the connection', async () => {
    const smuggled = 'GET /keys HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'
    for (const lengths of [
      'Content-Length: 4\r\nTransfer-Encoding: chunked\r\n',
      'Transfer-Encoding: chunked\r\nContent-Length: 4\r\n',
      'Content-Length: 4\r\nContent-Length: 5\r\n',
      'Transfer-Encoding: chunked, identity\r\n',
      'Transfer-Encoding: xchunked\r\n',
      'Content-Length: 4x\r\n',
      'Content-Length: -1\r\n',
    ]) {
      const answer = await send([head('POST /workspaces', `${json}${lengths}\r\n0\r\n\r\n${smuggled}`)])
      assert.equal(answer.status, 400, lengths)
      assert.equal(answer.closed, true)
      // One answer: the smuggled bytes are not read as a second request.
      assert.equal(answer.body.includes('HTTP/1.1'), false, lengths)
    }
  })

  test('input 42: paths that a proxy could interpret differently are not found', async () => {
    for (const path of [
      '//me',
      '/keys/../me',
      '/keys/%2e%2e/me',
      '/./me',
      '/keys/..%2fme',
      '/keys/..%5cme',
      '/me/..',
      '/keys/.%2E/me',
    ]) {
      assertProblem(await send([head(`GET ${path}`, 'Connection: close\r\n\r\n')]), '404 api.route.not_found')
    }
    assert.equal((await send([head('GET /keys\\..\\me', 'Connection: close\r\n\r\n')])).status, 400)
  })

  test('malformed HTTP, and a missing or foreign Host, are refused with a problem', async () => {
    assertProblem(await send(['NONSENSE\r\n\r\n']), '400 api.request.malformed')
    assertProblem(await send(['\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001']), '400 api.request.malformed')
    assertProblem(await send(['GET /me HTTP/1.1\r\nConnection: close\r\n\r\n']), '400 api.request.malformed')
    assertProblem(
      await send(['GET /health HTTP/1.1\r\nHost: evil.example.com\r\nConnection: close\r\n\r\n']),
      '403 api.host.not_allowed',
    )
    assertProblem(
      await send(['GET /health HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n']),
      '400 api.request.malformed',
    )
    assertProblem(await send([head('GET /me', 'X-Bad: a\u0000b\r\n\r\n')]), '400 api.request.malformed')
  })

  test('the server survives 2,000 requests with damaged bytes', async () => {
    const right = Buffer.from(
      head('POST /workspaces', `${json}Content-Length: 29\r\nConnection: close\r\n\r\n{"slug":"raw","name":"Raw 1"}`),
      'latin1',
    )
    const chance = openChance('damaged bytes')
    const noise = Buffer.from(Array.from({ length: 2_000 * 4 }, () => chance.whole(256)))
    const statuses = new Set<number>()
    for (let from = 0; from < 2_000; from += 40) {
      const batch = Array.from({ length: 40 }, (_, step) => {
        const damaged = Buffer.from(right)
        const at = (from + step) * 4
        damaged[noise.readUInt16LE(at) % damaged.length] = noise[at + 2] ?? 0
        if ((noise[at + 3] ?? 0) % 4 === 0) damaged[(noise[at + 3] ?? 0) % damaged.length] = noise[at] ?? 0
        return send([damaged], { thenEnd: true })
      })
      for (const { status } of await Promise.all(batch)) statuses.add(status)
    }
    for (const status of statuses) assert.ok(status < 500, `${status}`)
    assert.ok(statuses.has(400) && statuses.size >= 4, [...statuses].join())
    assert.equal((await send([`GET /health HTTP/1.1\r\n${host()}Connection: close\r\n\r\n`])).status, 200)
    assert.equal(
      api.log.some(({ level }) => level === 'error'),
      false,
    )
  })

  test('a reader of events that leaves ends its stream', async () => {
    const app = api.with({ limits: { streamsPerKeyMax: 1, heartbeatMs: 50 } })
    const other = await serve(app, { host: '127.0.0.1', port: 0, randomBytes: (count) => randomBytes(count) })
    const headers = { authorization: `Bearer ${api.ours.people.reader.key}` }
    const open = () => fetch(`${other.url}/events?after=0.0`, { headers, signal: leave.signal })
    let leave = new AbortController()
    for (let turn = 0; turn < 3; turn++) {
      let response = await open()
      // The server learns of the departure a moment later than the reader.
      while (response.status === 429) {
        await response.body?.cancel()
        await new Promise((resolve) => setTimeout(resolve, 10))
        response = await open()
      }
      const { value } = await (response.body as ReadableStream<Uint8Array>).getReader().read()
      assert.match(new TextDecoder().decode(value), /^retry: 2000/)
      leave.abort()
      leave = new AbortController()
    }
    await other.close(1_000)
  })

  test('closing lets a running request end', async () => {
    let release = () => {}
    const gate = new Promise<void>((resolve) => {
      release = resolve
    })
    let arrived = () => {}
    const waiting = new Promise<void>((resolve) => {
      arrived = resolve
    })
    const app = api.with({
      extraRoutes: (more) =>
        more.get('/slow', async (c) => {
          arrived()
          await gate
          return c.text('done')
        }),
    })
    const other = await serve(app, { host: '127.0.0.1', port: 0, randomBytes: (count) => randomBytes(count) })
    const answer = fetch(`${other.url}/slow`, { headers: { authorization: `Bearer ${api.ours.people.admin.key}` } })
    await waiting
    const closed = other.close(10_000)
    release()
    assert.equal(await (await answer).text(), 'done')
    await closed
    await assert.rejects(fetch(`${other.url}/health`))
  })

  test('a taken port fails the start of the server', async () => {
    await assert.rejects(
      serve(api.app, { host: '127.0.0.1', port: served.port, randomBytes: (count) => randomBytes(count) }),
      { code: 'EADDRINUSE' },
    )
  })
})
