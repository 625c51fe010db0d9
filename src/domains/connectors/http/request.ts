/** Turns the answer of a provider into an output, or into a failure of the closed list; its own words go no further. */
import { lookup } from 'node:dns/promises'
import { type ClientRequest, type IncomingMessage, request as httpRequest, type RequestOptions } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP } from 'node:net'
import { parseGuardedJson } from '#kernel/json-guard'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { ConnectorFailure, type ConnectorResult, succeeded } from '../connector.ts'
import type { HttpForm } from './http-connector.ts'
import { decideAddress, decideUrl, hostOf, type Reach } from './reach.ts'

const strictUtf8 = new TextDecoder('utf-8', { fatal: true })

export function readAnswer(form: HttpForm, answer: HttpAnswer, bytesMax: number): ConnectorResult {
  const { status } = answer
  if (status < 200 || status >= 300) throw failureOfStatus(answer)
  const text = decode(answer.body)
  const metadata = { status }
  if (form.answer === 'text') return succeeded({ status, text }, metadata)
  if (text === '') return succeeded(null, metadata)
  const parsed = parseGuardedJson(text, { bytesMax, depthMax: 32, keysMax: 10_000 })
  if (!parsed.ok) throw unreadable(`the answer is not JSON that can be taken: ${parsed.code}`)
  return succeeded(parsed.value, metadata)
}

function decode(body: Buffer): string {
  try {
    return strictUtf8.decode(body)
  } catch {
    throw unreadable('the answer is not UTF-8')
  }
}

function unreadable(message: string): ConnectorFailure {
  return new ConnectorFailure('transient_connector_error', message, 'unknown')
}

/** A clear no was said before anything was done; a fault of the provider says nothing about that. */
export function failureOfStatus({ status, headers }: Pick<HttpAnswer, 'status' | 'headers'>): ConnectorFailure {
  const said = `the provider answered ${status}`
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

/** Seconds only: a date would be read against a clock that is not the provider's. The caller bounds a long delay. */
export function retryAfterMs(header: string | readonly string[] | undefined): number | undefined {
  if (typeof header !== 'string' || !/^\d+$/.test(header)) return undefined
  return Math.min(Number.MAX_SAFE_INTEGER, Number(header) * 1_000)
}

/** Sends one request to one checked address and reads its answer, no further than its limit. Redirects are not followed here. */
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

/** Turns an operation and its input into method, address and body; no field can climb out of its place. Pure. */
export type BuiltRequest = { readonly url: URL; readonly body: string | undefined }

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
    // A dot segment would be taken out of the path together with what stands before it.
    if (text === '' || text === '.' || text === '..') wrong ??= name
    return encodeURIComponent(text)
  })
  if (wrong !== undefined)
    return refuse('connectors.address.not_allowed', `the field ${quote(wrong)} cannot stand in a path`, { path: wrong })
  return accept(`${base.origin}${base.pathname.replace(/\/$/, '')}${path}`)
}

function textOf(input: JsonObject, name: string): Decision<string> {
  const value = input[name]
  return typeof value === 'string'
    ? accept(value)
    : refuse('connectors.address.not_allowed', `${quote(name)} is no address`)
}

function queryText(value: JsonValue): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Follows redirects by hand: each hop is decided like the first, and a credential never leaves its origin. */
const redirects: readonly number[] = [301, 302, 303, 307, 308]

export type Redirected = {
  readonly request: HttpRequest
  readonly redirectsMax: number
  /** The names of the headers that carry the credential. */
  readonly credentialHeaders: readonly string[]
}

export async function sendAndFollow({ request, redirectsMax, credentialHeaders }: Redirected): Promise<HttpAnswer> {
  let hop = request
  for (let hops = 0; ; hops += 1) {
    const answer = await sendRequest(hop)
    const { location } = answer.headers
    if (!redirects.includes(answer.status) || typeof location !== 'string') return answer
    if (hop.method !== 'GET' && hop.method !== 'HEAD')
      throw new ConnectorFailure('validation_error', 'the provider sent a change on to another address', 'unknown')
    if (hops >= redirectsMax)
      throw new ConnectorFailure(
        'validation_error',
        `the provider sent the request on more than ${redirectsMax} times`,
        'no',
      )
    const next = decideUrl(location, hop.reach, hop.url)
    if (!next.ok) throw new ConnectorFailure('permission_denied', `a redirect was not followed: ${next.reason}`, 'no')
    const isSame = next.value.origin === hop.url.origin
    const headers = isSame ? hop.headers : without(hop.headers, credentialHeaders)
    hop = { ...hop, url: next.value, headers }
  }
}

function without(headers: Readonly<Record<string, string>>, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)))
}
