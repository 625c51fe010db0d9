/** Serves the API over HTTP/1.1 with limits of its own: slow, oversized and ambiguous requests are answered and cut off. */
import { createServer, type Server, type ServerOptions, STATUS_CODES } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { getRequestListener, RequestError } from '@hono/node-server'
import { textId } from '#kernel/ids'
import { type Refusal, refuse } from '#kernel/refusal'
import { problemHeaders, problemResponse, type RequestIds, statusOf, toProblem } from './problem.ts'

/**
 * The body guard gives up after 8 s; these limits stand behind it for what never reaches a route, so that the whole is
 * over within 10 s. Node looks at its limits every `connectionsCheckingInterval`, 30 s unless told otherwise.
 */
export const serverOptions: ServerOptions = {
  maxHeaderSize: 16_384,
  headersTimeout: 8_000,
  requestTimeout: 8_500,
  connectionsCheckingInterval: 500,
  keepAliveTimeout: 5_000,
  insecureHTTPParser: false,
  // A missing Host is answered by us, as a problem.
  requireHostHeader: false,
}

export type ServeOptions = {
  readonly host: string
  /** 0 takes a free one. */
  readonly port: number
  readonly randomBytes: (count: number) => Uint8Array
  readonly options?: ServerOptions
}

export type ServedApi = {
  readonly host: string
  readonly port: number
  readonly url: string
  readonly server: Server
  /** Takes no new requests, lets the running ones end, and after `graceMs` ends what is left. */
  close(graceMs?: number): Promise<void>
}

type Fetcher = { readonly fetch: (request: Request, env: object) => Response | Promise<Response> }

/** What Node's parser and timers say, in our words. */
function refuseConnection(code: string | undefined): Refusal {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return refuse('api.headers.too_large', 'The headers are larger than 16 KiB.', { facts: { limit_bytes: 16_384 } })
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return refuse('request_timeout', 'The request did not arrive in time.', {
        hint: 'Send the request again, in one go.',
      })
    default:
      return refuse('api.request.malformed', 'This is not a well-formed HTTP request.')
  }
}

function newIds(randomBytes: ServeOptions['randomBytes']): RequestIds {
  return { requestId: textId('request', randomBytes(16)), traceId: textId('trace', randomBytes(16)) }
}

/** An answer for a connection on which no request was understood. */
function writeRaw(refusal: Refusal, ids: RequestIds): string {
  const status = statusOf(refusal)
  const body = JSON.stringify(toProblem(refusal, ids))
  const headers = { ...problemHeaders(refusal), 'content-length': String(Buffer.byteLength(body)), connection: 'close' }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('\r\n')}\r\n\r\n${body}`
}

/** The response that Node has begun on this connection, if any; a second one on top of it would be read as its body. */
function hasBegun(socket: Duplex): boolean {
  return (socket as Socket & { _httpMessage?: { headersSent: boolean } })._httpMessage?.headersSent === true
}

export async function serve(app: Fetcher, { host, port, randomBytes, options }: ServeOptions): Promise<ServedApi> {
  const listener = getRequestListener((request, env) => app.fetch(request, env), {
    errorHandler: (error) => {
      const refusal =
        error instanceof RequestError
          ? refuseConnection(undefined)
          : refuse('internal_error', 'Something went wrong on our side.')
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

async function closeServer(server: Server, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  server.closeIdleConnections()
  const timer = setTimeout(() => server.closeAllConnections(), graceMs)
  await closed
  clearTimeout(timer)
}
