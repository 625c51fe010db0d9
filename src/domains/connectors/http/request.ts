/** One HTTP request: built from an operation, sent only to a checked address, followed over redirects, and its answer turned into a result. */
import { lookup } from 'node:dns/promises'
import { type ClientRequest, type IncomingMessage, request as httpRequest, type RequestOptions } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP } from 'node:net'
import { parseGuardedJson } from '#kernel/json-guard'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { ConnectorFailure, type ConnectorResult, succeeded } from '../connector.ts'
import type { HttpForm } from './http-connector.ts'
import { decideAddress, decideUrl, hostOf, portOf, type Reach } from './reach.ts'

const strictUtf8 = new TextDecoder('utf-8', { fatal: true })

/** Returns the output, or throws a failure in Concord's words; the text of the provider is not passed on. */
export function readAnswer(form: HttpForm, answer: HttpAnswer, bytesMax: number): ConnectorResult {
  const { status } = answer
  if (status < 200 || status >= 300) throw failureOfStatus(answer)
  const text = decode(answer.body)
  const metadata = { 'http.response.status_code': status }
  if (form.answer === 'text') return succeeded({ status, text }, metadata)
  if (text === '') return succeeded(null, metadata)
  const parsed = parseGuardedJson(text, { bytesMax, depthMax: 32, keysMax: 10_000 })
  if (!parsed.ok) throw unreadable(`The answer is not valid JSON: ${parsed.code}.`)
  return succeeded(parsed.value, metadata)
}

function decode(body: Buffer): string {
  try {
    return strictUtf8.decode(body)
  } catch {
    throw unreadable('The answer is not UTF-8.')
  }
}

function unreadable(message: string): ConnectorFailure {
  return new ConnectorFailure('transient_connector_error', message, 'unknown')
}

/** A refusal means that nothing happened; a fault of the provider leaves that unknown. */
export function failureOfStatus({ status, headers }: Pick<HttpAnswer, 'status' | 'headers'>): ConnectorFailure {
  const said = `The provider answered ${status}.`
  switch (status) {
    case 401:
    case 403:
    case 407:
      return new ConnectorFailure('permission_denied', said, 'no')
    case 408:
      return new ConnectorFailure('timeout', said, 'unknown')
    case 413:
    case 414:
    case 431:
      return new ConnectorFailure('malformed_payload', said, 'no')
    case 425:
    case 429:
      return new ConnectorFailure('rate_limited', said, 'no', retryAfterMs(headers['retry-after']))
    default:
      return status >= 400 && status < 500
        ? new ConnectorFailure('validation_error', said, 'no')
        : new ConnectorFailure('transient_connector_error', said, 'unknown', retryAfterMs(headers['retry-after']))
  }
}

/** Accepts seconds only: a date would be compared with a clock that is not the provider's. The caller bounds a long delay. */
export function retryAfterMs(header: string | readonly string[] | undefined): number | undefined {
  if (typeof header !== 'string' || !/^\d+$/.test(header)) return undefined
  return Math.min(Number.MAX_SAFE_INTEGER, Number(header) * 1_000)
}

export type Resolve = (hostname: string) => Promise<readonly { readonly address: string; readonly family: number }[]>

/** The resolver of the machine, with its hosts file and search rules. */
const systemResolve: Resolve = (hostname) => lookup(hostname, { all: true, verbatim: true })

/** The network settings of a connector. */
export type Network = {
  /** By default the host and port of the declared URL. */
  readonly reach?: Partial<Reach>
  /** Certificates of a private authority, as PEM. */
  readonly ca?: string
  /** Replaces the resolver of the machine. */
  readonly resolve?: Resolve
}

export type HttpRequest = {
  readonly url: URL
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
  readonly signal: AbortSignal
  readonly bytesMax: number
  readonly reach: Reach
  readonly resolve?: Resolve | undefined
  readonly ca?: string | undefined
}

export type HttpAnswer = {
  readonly status: number
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  readonly body: Buffer
}

/** Connects to the checked address itself: no name is resolved after the check. Reads the answer up to its limit, and follows no redirect. */
export async function sendRequest(request: HttpRequest): Promise<HttpAnswer> {
  const { url, method, headers, body, signal, ca, reach, resolve: resolver } = request
  const isTls = url.protocol === 'https:'
  const host = hostOf(url)
  const address = await chooseAddress(host, reach, resolver)
  let isSent = false
  return new Promise<HttpAnswer>((resolve, reject) => {
    const message = start(isTls ? httpsRequest : httpRequest, {
      // No connection pool and no proxy from the environment: one connection, to this address.
      agent: false,
      host: address,
      port: portOf(url),
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

/** Node checks headers before it connects: a refused header was not sent and would be refused again. */
function start(request: typeof httpRequest, options: RequestOptions): ClientRequest {
  try {
    return request(options)
  } catch {
    throw new ConnectorFailure(
      'validation_error',
      'The idempotency key or the credential is not valid in a header.',
      'no',
    )
  }
}

/** Resolves a host to an address that the connector may call. Throws `ConnectorFailure`. */
export async function chooseAddress(
  host: string,
  reach: Pick<Reach, 'private_networks'>,
  resolve: Resolve = systemResolve,
): Promise<string> {
  const found =
    isIP(host) === 0
      ? await resolve(host).catch((error: unknown) => Promise.reject(failureOf(error, false)))
      : [{ address: host, family: isIP(host) }]
  for (const { address } of found) {
    const allowed = decideAddress(address, reach)
    // Refuses a name with any forbidden address; otherwise chance would decide which address is called.
    if (!allowed.ok) throw new ConnectorFailure('permission_denied', allowed.reason, 'no')
  }
  const [first] = found
  if (!first) throw new ConnectorFailure('transient_connector_error', 'The host has no address.', 'no')
  return first.address
}

async function readBody(response: IncomingMessage, bytesMax: number): Promise<HttpAnswer> {
  const encoding = response.headers['content-encoding']
  if (encoding !== undefined && encoding !== 'identity') {
    response.destroy()
    throw new ConnectorFailure(
      'transient_connector_error',
      'The answer is compressed, which was not requested.',
      'unknown',
    )
  }
  const chunks: Buffer[] = []
  let sizeBytes = 0
  for await (const chunk of response) {
    // No encoding is set, so chunks are bytes.
    const bytes = chunk as Buffer
    sizeBytes += bytes.length
    if (sizeBytes > bytesMax) {
      response.destroy()
      throw new ConnectorFailure('transient_connector_error', `The answer has more than ${bytesMax} bytes.`, 'unknown')
    }
    chunks.push(bytes)
  }
  return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }
}

/** Only a connection that was never made proves that nothing happened. Network error texts are not passed on: they contain addresses. */
function failureOf(error: unknown, isSent: boolean): ConnectorFailure {
  if (error instanceof ConnectorFailure) return error
  const { code, name } = error as { code?: string; name?: string }
  const happened = isSent ? 'unknown' : 'no'
  if (name === 'AbortError') return new ConnectorFailure('timeout', 'The request was aborted.', happened)
  const what = typeof code === 'string' ? ` (${code})` : ''
  const kind = isSent ? 'The connection broke' : 'No connection could be made'
  return new ConnectorFailure('transient_connector_error', `${kind}${what}.`, happened)
}

type BuiltRequest = { readonly url: URL; readonly body: string | undefined }

/** Turns an operation and its input into a URL and a body; a field cannot change another part of the URL. Pure. */
export function buildRequest(form: HttpForm, base: URL, input: JsonObject, reach: Reach): Decision<BuiltRequest> {
  const used = new Set<string>(form.query ?? [])
  const url = form.url_from === undefined ? fillPath(form, base, input, used) : textOf(input, form.url_from)
  if (!url.ok) return url
  if (form.url_from !== undefined) used.add(form.url_from)
  const decided = decideUrl(url.value, reach)
  if (!decided.ok) return decided
  for (const name of form.query ?? []) {
    const value = input[name]
    if (value !== undefined && value !== null) decided.value.searchParams.set(name, queryText(value))
  }
  const rest = Object.fromEntries(Object.entries(input).filter(([name]) => !used.has(name)))
  const hasBody = form.method !== 'GET' && form.method !== 'HEAD' && form.method !== 'DELETE'
  return accept({ url: decided.value, body: hasBody ? JSON.stringify(rest) : undefined })
}

function fillPath(form: HttpForm, base: URL, input: JsonObject, used: Set<string>): Decision<string> {
  let wrong: string | undefined
  const path = (form.path ?? '').replace(/\{([A-Za-z_][\w-]*)\}/g, (_whole, name: string) => {
    used.add(name)
    const value = input[name]
    const isPlain = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    const text = isPlain ? String(value) : ''
    // A dot segment would also remove the segment before it.
    if (text === '' || text === '.' || text === '..') wrong ??= name
    return encodeURIComponent(text)
  })
  if (wrong !== undefined)
    return refuse('connectors.address.not_allowed', `The field ${quote(wrong)} is not valid in a path.`, {
      path: wrong,
    })
  return accept(`${base.origin}${base.pathname.replace(/\/$/, '')}${path}`)
}

function textOf(input: JsonObject, name: string): Decision<string> {
  const value = input[name]
  return typeof value === 'string'
    ? accept(value)
    : refuse('connectors.address.not_allowed', `The field ${quote(name)} is not a URL.`)
}

function queryText(value: JsonValue): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Checks a URL against the reach of a connector. Throws `ConnectorFailure`. */
export function allowedUrl(text: string, reach: Reach): URL {
  const url = decideUrl(text, reach)
  if (url.ok) return url.value
  throw new ConnectorFailure('permission_denied', url.reason, 'no')
}

export function jsonHeaders(body: string | undefined): Readonly<Record<string, string>> {
  if (body === undefined) return {}
  return { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) }
}

const redirects: readonly number[] = [301, 302, 303, 307, 308]

/** Checks every redirect like the first URL, and sends the credential headers only to their origin. */
export async function sendAndFollow(
  request: HttpRequest,
  redirectsMax: number,
  credentialHeaders: readonly string[],
): Promise<HttpAnswer> {
  let hop = request
  for (let hops = 0; ; hops += 1) {
    const answer = await sendRequest(hop)
    const { location } = answer.headers
    if (!redirects.includes(answer.status) || typeof location !== 'string') return answer
    if (hop.method !== 'GET' && hop.method !== 'HEAD')
      throw new ConnectorFailure(
        'validation_error',
        'The provider redirected a request that changes something.',
        'unknown',
      )
    if (hops >= redirectsMax)
      throw new ConnectorFailure('validation_error', `There were more than ${redirectsMax} redirects.`, 'no')
    const next = decideUrl(location, hop.reach, hop.url)
    if (!next.ok) throw new ConnectorFailure('permission_denied', `A redirect was not followed: ${next.reason}`, 'no')
    const isSame = next.value.origin === hop.url.origin
    const headers = isSame ? hop.headers : without(hop.headers, credentialHeaders)
    hop = { ...hop, url: next.value, headers }
  }
}

function without(headers: Readonly<Record<string, string>>, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)))
}
