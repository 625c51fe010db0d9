/** Sends one request to one checked address and reads its answer, no further than its limit. Redirects are not followed here. */
import { lookup } from 'node:dns/promises'
import { type ClientRequest, type IncomingMessage, request as httpRequest, type RequestOptions } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP } from 'node:net'
import { ConnectorFailure } from '../connector.ts'
import { decideAddress, hostOf, type Reach } from './reach.ts'

export type Resolve = (hostname: string) => Promise<readonly { readonly address: string; readonly family: number }[]>

/** The resolver of the machine: hosts file, search rules and all. */
export const systemResolve: Resolve = (hostname) => lookup(hostname, { all: true, verbatim: true })

export type HttpRequest = {
  readonly url: URL
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
  readonly signal: AbortSignal
  readonly bytesMax: number
  readonly reach: Reach
  readonly resolve: Resolve
  /** Certificates of one's own authority, as PEM. */
  readonly ca?: string | undefined
}

export type HttpAnswer = {
  readonly status: number
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  readonly body: Buffer
}

/** The address that was checked is handed to the socket: no name is resolved after the check. */
export async function sendRequest(request: HttpRequest): Promise<HttpAnswer> {
  const address = await chooseAddress(request)
  const { url, method, headers, body, signal, ca } = request
  const isTls = url.protocol === 'https:'
  const host = hostOf(url)
  let isSent = false
  return new Promise<HttpAnswer>((resolve, reject) => {
    const message = start(isTls ? httpsRequest : httpRequest, {
      // No pool and no proxy of the environment: one connection, to this address.
      agent: false,
      host: address,
      port: url.port === '' ? (isTls ? 443 : 80) : Number(url.port),
      path: `${url.pathname}${url.search}`,
      method,
      headers: { ...headers, host: url.host, 'accept-encoding': 'identity', connection: 'close' },
      signal,
      ...(isTls ? { servername: isIP(host) === 0 ? host : '', ...(ca === undefined ? {} : { ca }) } : {}),
    })
    message.on('socket', (socket) => socket.once(isTls ? 'secureConnect' : 'connect', () => (isSent = true)))
    message.on('error', (error) => reject(failureOf(error, isSent)))
    message.on('response', (response) => {
      readBody(response, request.bytesMax).then(resolve, (error: unknown) => reject(failureOf(error, true)))
    })
    message.end(body)
  })
}

/** Node looks at headers before it dials: what it refuses was not sent, and would be refused again. */
function start(request: typeof httpRequest, options: RequestOptions): ClientRequest {
  try {
    return request(options)
  } catch {
    throw new ConnectorFailure('validation_error', 'a header cannot carry the key or the credential', 'no')
  }
}

async function chooseAddress({ url, reach, resolve }: HttpRequest): Promise<string> {
  const host = hostOf(url)
  const found =
    isIP(host) === 0
      ? await resolve(host).catch((error: unknown) => Promise.reject(failureOf(error, false)))
      : [{ address: host, family: isIP(host) }]
  for (const { address } of found) {
    const allowed = decideAddress(address, reach)
    // One bad address spoils the name: which of them is dialled must not be chance.
    if (!allowed.ok) throw new ConnectorFailure('permission_denied', allowed.reason, 'no')
  }
  const [first] = found
  if (!first) throw new ConnectorFailure('transient_connector_error', 'the host has no address', 'no')
  return first.address
}

async function readBody(response: IncomingMessage, bytesMax: number): Promise<HttpAnswer> {
  const encoding = response.headers['content-encoding']
  if (encoding !== undefined && encoding !== 'identity') {
    response.destroy()
    throw new ConnectorFailure(
      'transient_connector_error',
      'the answer is compressed, which was not asked for',
      'unknown',
    )
  }
  const chunks: Buffer[] = []
  let sizeBytes = 0
  for await (const chunk of response) {
    // Nobody has set an encoding, so chunks are bytes.
    const bytes = chunk as Buffer
    sizeBytes += bytes.length
    if (sizeBytes > bytesMax) {
      response.destroy()
      throw new ConnectorFailure('transient_connector_error', `the answer has more than ${bytesMax} bytes`, 'unknown')
    }
    chunks.push(bytes)
  }
  return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }
}

/** Only a connection that was never made proves that nothing was done. The texts of the network are not passed on: they name addresses. */
function failureOf(error: unknown, isSent: boolean): ConnectorFailure {
  if (error instanceof ConnectorFailure) return error
  const { code, name } = error as { code?: string; name?: string }
  const happened = isSent ? 'unknown' : 'no'
  if (name === 'AbortError') return new ConnectorFailure('timeout', 'the request was given up', happened)
  const what = typeof code === 'string' ? ` (${code})` : ''
  const kind = isSent ? 'the connection broke' : 'no connection could be made'
  return new ConnectorFailure('transient_connector_error', `${kind}${what}`, happened)
}
