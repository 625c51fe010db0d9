/** Serves the API over HTTP/1.1 with connection limits: slow, oversized and ambiguous requests are answered and closed. */
import { createServer, type Server, type ServerOptions, STATUS_CODES } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { getRequestListener, RequestError } from '@hono/node-server'
import { textId } from '#kernel/ids'
import { type Refusal, refuse } from '#kernel/refusal'
import { problemHeaders, problemResponse, type RequestIds, statusOf, toProblem } from './problem.ts'

/**
 * The body guard gives up after 8 s; these limits cover requests that never reach a route, so that each ends within 10 s.
 * Node checks its limits every `connectionsCheckingInterval`, 30 s by default.
 */
export const serverOptions: ServerOptions = {
  maxHeaderSize: 16_384,
  headersTimeout: 8_000,
  requestTimeout: 8_500,
  connectionsCheckingInterval: 500,
  keepAliveTimeout: 5_000,
  insecureHTTPParser: false,
  // The API answers a missing Host with a problem.
  requireHostHeader: false,
}

type ServeOptions = {
  readonly host: string
  /** 0 takes a free port. */
  readonly port: number
  readonly randomBytes: (count: number) => Uint8Array
  readonly options?: ServerOptions
}

export type ServedApi = {
  readonly host: string
  readonly port: number
  readonly url: string
  readonly server: Server
  /** Accepts no new requests, lets the running ones end, and closes the rest after `graceMs`. */
  close(graceMs?: number): Promise<void>
}

type Fetcher = { readonly fetch: (request: Request, env: object) => Response | Promise<Response> }

/** Maps the errors of Node's parser and timers to refusals. */
function refuseConnection(code: string | undefined): Refusal {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return refuse('api.headers.too_large', 'The headers are larger than 16 KiB.', { facts: { limit_bytes: 16_384 } })
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return refuse('request_timeout', 'The request did not arrive in time.', {
        hint: 'Send the request again without pauses.',
      })
    default:
      return refuse('api.request.malformed', 'This is not a well-formed HTTP request.')
  }
}

function newIds(randomBytes: ServeOptions['randomBytes']): RequestIds {
  return { requestId: textId('request', randomBytes(16)), traceId: textId('trace', randomBytes(16)) }
}

/** Writes an answer to a connection without a parsed request. */
function writeRaw(refusal: Refusal, ids: RequestIds): string {
  const status = statusOf(refusal)
  const body = JSON.stringify(toProblem(refusal, ids))
  const headers = { ...problemHeaders(refusal), 'content-length': String(Buffer.byteLength(body)), connection: 'close' }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('\r\n')}\r\n\r\n${body}`
}

/** Returns whether Node has begun a response on this connection; a second one would be read as its body. */
function hasBegun(socket: Duplex): boolean {
  return (socket as Socket & { _httpMessage?: { headersSent: boolean } })._httpMessage?.headersSent === true
}

export async function serve(app: Fetcher, { host, port, randomBytes, options }: ServeOptions): Promise<ServedApi> {
  const listener = getRequestListener((request, env) => app.fetch(request, env), {
    errorHandler: (error) => {
      const refusal =
        error instanceof RequestError
          ? refuseConnection(undefined)
          : refuse('internal_error', 'The server failed with an internal error.')
      return problemResponse(refusal, newIds(randomBytes))
    },
  })
  const server = createServer(
    { ...serverOptions, ...options },
    (incoming, outgoing) => void listener(incoming, outgoing),
  )
  server.on('clientError', (error: Error & { code?: string }, socket) => {
    if (error.code === 'ECONNRESET' || !socket.writable || hasBegun(socket)) return socket.destroy()
    return socket.end(writeRaw(refuseConnection(error.code), newIds(randomBytes)), () => socket.destroy())
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
  const bound = (server.address() as AddressInfo).port
  return {
    host,
    port: bound,
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}`,
    server,
    close: (graceMs = 5_000) => closeServer(server, graceMs),
  }
}

const IDLE_MS = 20

async function closeServer(server: Server, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  server.closeIdleConnections()
  // A client may keep its connection open for the next request after the running one has ended.
  const idle = setInterval(() => server.closeIdleConnections(), IDLE_MS)
  const timer = setTimeout(() => server.closeAllConnections(), graceMs)
  await closed
  clearInterval(idle)
  clearTimeout(timer)
}
