/** An HTTP API on loopback that records its writes and misbehaves as a test says. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type ApiMode =
  | 'honest'
  | 'slow'
  | 'fail_before'
  | 'fail_after'
  | 'cut_after'
  | 'lie'
  | 'hang'
  | 'hang_in_body'
  | 'endless'
  | 'oversized'
  | 'not_json'
  | 'not_utf8'
  | 'compressed'
  | 'unauthorized'
  | 'rate_limited'
  | 'overloaded'
  | 'echo'
  | 'echo_error'
  | 'echo_redirect'
  | 'moved'
  | 'slack'

export type MisbehavingApi = {
  readonly url: string
  readonly port: number
  mode: ApiMode
  /** The target of the redirects of the mode `moved`. */
  movedTo: string
  /** Writes by key: what was really done. */
  readonly done: Map<string, number>
  readonly requests: {
    readonly method: string
    readonly url: string
    readonly headers: IncomingMessage['headers']
    readonly body: string
  }[]
  /** Connections that the client has closed. */
  readonly left: () => number
  close(): Promise<void>
}

export async function openMisbehavingApi(host = '127.0.0.1'): Promise<MisbehavingApi> {
  let left = 0
  const api = {
    mode: 'honest' as ApiMode,
    movedTo: '/',
    done: new Map<string, number>(),
    requests: [] as MisbehavingApi['requests'],
  }
  const server: Server = createServer((request, response) => {
    response.on('close', () => {
      if (!response.writableEnded) left += 1
    })
    void readAll(request).then((body) => answer(api, request, response, body))
  })
  await new Promise<void>((done) => server.listen(0, host, done))
  const { port } = server.address() as AddressInfo
  return Object.assign(api, {
    url: `http://${host}:${port}`,
    port,
    left: () => left,
    close: () =>
      new Promise<void>((done) => {
        server.close(() => done())
        server.closeAllConnections()
      }),
  })
}

async function readAll(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request) text += String(chunk)
  return text
}

type Books = Pick<MisbehavingApi, 'mode' | 'movedTo' | 'done' | 'requests'>

function answer(api: Books, request: IncomingMessage, response: ServerResponse, body: string): void {
  const { method = '', url = '', headers } = request
  api.requests.push({ method, url, headers, body })
  const send = (status: number, value: unknown, more: Record<string, string> = {}) => {
    response.writeHead(status, { 'content-type': 'application/json', ...more })
    response.end(typeof value === 'string' || value instanceof Uint8Array ? value : JSON.stringify(value))
  }
  if (url.startsWith('/token'))
    return send(200, { access_token: `token-${body.length}-abcdef012345`, expires_in: 3_600 })
  const key = String(headers['idempotency-key'] ?? url)
  const apply = () => api.done.set(key, (api.done.get(key) ?? 0) === 0 ? 1 : (api.done.get(key) ?? 0))
  const good = { id: 'c1', key }
  // A request may choose its mode, so that many modes run at once.
  const asked = new URL(url, 'http://api.test').searchParams.get('as') as ApiMode | null
  switch (asked ?? api.mode) {
    case 'honest':
      if (method !== 'GET') apply()
      return send(200, good)
    case 'slack':
      apply()
      return send(200, 'ok')
    case 'slow':
      return void setTimeout(() => send(200, good), 400)
    case 'fail_before':
      return send(503, { error: 'down' })
    case 'fail_after':
      apply()
      return send(500, { error: 'oops' })
    case 'cut_after':
      apply()
      return void response.destroy()
    case 'lie':
      apply()
      return send(200, { id: 7, key })
    case 'hang':
      return undefined
    case 'hang_in_body':
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' })
      return void response.write('{"id":')
    case 'endless': {
      response.writeHead(200, { 'content-type': 'application/json' })
      const more = () => {
        if (!response.destroyed) response.write('x'.repeat(65_536), () => setImmediate(more))
      }
      return more()
    }
    case 'oversized':
      return send(200, { id: 'x'.repeat(2_000_000) })
    case 'not_json':
      return send(200, '<html>all good</html>')
    case 'not_utf8':
      return send(200, new Uint8Array([0x7b, 0xff, 0xfe, 0x7d]))
    case 'compressed':
      return send(200, good, { 'content-encoding': 'gzip' })
    case 'unauthorized':
      return send(401, { error: headers })
    case 'rate_limited':
      return send(429, { error: 'slow down' }, { 'retry-after': '7' })
    case 'overloaded':
      return send(503, { error: 'come back later' }, { 'retry-after': '120' })
    case 'echo':
      return send(
        200,
        { id: 'c1', key, headers, body, url },
        { 'x-echo': Buffer.from(JSON.stringify(headers)).toString('base64') },
      )
    case 'echo_error':
      return send(422, { error: JSON.stringify({ headers, body, url }) })
    case 'moved':
      return send(302, '', { location: api.movedTo })
    case 'echo_redirect':
      return send(302, '', { location: `/again?was=${encodeURIComponent(JSON.stringify(headers))}` })
  }
}
