/** The body of a request: read within limits of size and time, and accepted only as a guarded JSON object in UTF-8. */
import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import type { RouteConfig } from '@hono/zod-openapi'
import type { MiddlewareHandler } from 'hono'
import { refuseSecret } from '#contract'
import { parseGuardedObject } from '#kernel/json-guard'
import { formatPath, isJsonObject, type JsonObject } from '#kernel/json-value'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { hasSecretShape } from '#kernel/secret-shapes'
import { answerProblem, type ApiContext, type ApiEnv } from './guards.ts'
import { type BodyLines, KEY_HEADER, LINES_TYPE, linesOf, takesKeyHeader } from './resource.ts'

const JSON_TYPE = /^application\/json[ \t]*(?:;[ \t]*charset="?utf-8"?[ \t]*)?$/i

function wrongType(): Refusal {
  return refuse('media_type', 'The body must be application/json in UTF-8.', {
    path: 'Content-Type',
    hint: 'Send Content-Type: application/json.',
    facts: { allowed: ['application/json'] },
  })
}

function missing(): Refusal {
  return refuse('body_missing', 'The body is empty.', { hint: 'Send a JSON object.' })
}

// A byte order mark is kept, so that the parser refuses it like any other stray character.
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function decodeText(bytes: Uint8Array): Decision<string> {
  try {
    return accept(utf8.decode(bytes))
  } catch {
    return refuse('invalid_unicode', 'The body is not valid UTF-8.')
  }
}

/** A body of lines. Each line has the limits of a JSON body. */
const LINES_BYTES_MAX = 8 * 1_048_576

async function readLinesBody(c: ApiContext, limits: BodyLimits, lines: BodyLines): Promise<Decision<JsonObject>> {
  const bytes = await readBody(c.req.raw, { ...limits, bodyBytesMax: LINES_BYTES_MAX }, c.env?.incoming)
  if (!bytes.ok) return bytes
  const text = decodeText(bytes.value)
  if (!text.ok) return text
  const body = joinLines(text.value, lines)
  // The validators of the route see one JSON object.
  if (body.ok) c.req.raw.headers.set('content-type', 'application/json')
  return body
}

/** Puts the items into the list. An empty line at the end is none. */
function joinLines(text: string, { at, max }: BodyLines): Decision<JsonObject> {
  const [first = '', ...rest] = text.replace(/\r?\n$/, '').split('\n')
  const head = parseLine(first, 1)
  if (!head.ok) return head
  const path = formatPath(at)
  const [field, list] = at.length === 1 ? [undefined, at[0]] : at
  if (rest.length > max)
    return refuse('body_too_large', `The body has more than ${max} lines after the first.`, {
      path,
      facts: { limit: max, count: rest.length },
    })
  const holder = field === undefined ? head.value : (head.value[field] ?? {})
  if (!isJsonObject(holder) || Object.hasOwn(holder, list))
    return refuse('api.field.value', `The first line has \`${path}\` already, or no object in its place.`, { path })
  const items: JsonObject[] = []
  for (const [index, line] of rest.entries()) {
    const item = parseLine(line, index + 2)
    if (!item.ok) return { ...item, path: formatPath([...at, index]) }
    items.push(item.value)
  }
  const joined = { ...holder, [list]: items }
  return accept(field === undefined ? joined : { ...head.value, [field]: joined })
}

function parseLine(line: string, number: number): Decision<JsonObject> {
  const parsed = parseGuardedObject(line)
  return parsed.ok ? parsed : { ...parsed, reason: `Line ${number}: ${parsed.reason}` }
}

/** Reads the body as an object; undefined when it is empty and not required. */
async function readJsonBody(c: ApiContext, limits: BodyLimits): Promise<Decision<JsonObject | undefined>> {
  const isNeeded = c.get('access')?.body === 'required'
  const type = c.req.header('content-type')
  const lines = type?.toLowerCase() === LINES_TYPE ? linesOf(c.get('access')?.config) : undefined
  if (lines) return readLinesBody(c, limits, lines)
  if (type !== undefined && !JSON_TYPE.test(type)) return wrongType()
  const bytes = await readBody(c.req.raw, limits, c.env?.incoming)
  if (!bytes.ok) return bytes
  if (bytes.value.length === 0) return isNeeded ? missing() : accept(undefined)
  if (type === undefined) return wrongType()
  const text = decodeText(bytes.value)
  if (!text.ok) return text
  const parsed = parseGuardedObject(text.value)
  if (!parsed.ok) return parsed
  if (isNeeded) return parsed
  const [field] = Object.keys(parsed.value)
  if (field === undefined) return parsed
  return refuse('unknown_field', 'This route takes no fields.', {
    path: formatPath([field]),
    hint: 'Leave the body out.',
  })
}

/** A room stores a reason without the secrets in it, and only the hash of an invitation. */
const NOT_STORED_AS_SENT = ['reason', 'invitation']

/**
 * Names, keys, subjects, addresses: the texts and lists of texts of a body are stored as they are, so none may be a secret. A room checks the
 * objects that it takes against their contract.
 */
function findSecretField(body: JsonObject): Refusal | undefined {
  for (const [name, value] of Object.entries(body)) {
    const texts: readonly unknown[] = Array.isArray(value) ? value : [value]
    if (NOT_STORED_AS_SENT.includes(name) || !texts.some((text) => typeof text === 'string' && hasSecretShape(text)))
      continue
    const path = formatPath([name])
    return refuseSecret(`\`${path}\` looks like a key, a token or a password.`, path)
  }
  return undefined
}

export function bodyGuard(limits: BodyLimits): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const access = c.get('access')
    if (!access || access.body === 'raw' || c.req.method === 'GET' || c.req.method === 'HEAD') return next()
    const read = await readJsonBody(c, limits)
    const body = read.ok ? withHeaderKey(c, access.config, read.value) : read
    if (!body.ok) return answerProblem(c, body)
    const secret = body.value && findSecretField(body.value)
    if (secret) return answerProblem(c, secret)
    // Validators receive this checked value instead of parsing the body again.
    const value = body.value
    if (value) c.req.json = <T>() => Promise.resolve(value as T)
    c.set('sent', value)
    await next()
  }
}

/** The header is the field of the same name, on every route that takes a key. */
function withHeaderKey(
  c: ApiContext,
  config: RouteConfig | undefined,
  value: JsonObject | undefined,
): Decision<JsonObject | undefined> {
  const key = c.req.header(KEY_HEADER)
  if (key === undefined || !takesKeyHeader(config)) return accept(value)
  const sent = value?.['idempotency_key']
  if (sent !== undefined && sent !== key)
    return refuse('api.idempotency_key.differs', `The header ${KEY_HEADER} and the field idempotency_key differ.`, {
      path: KEY_HEADER,
    })
  return accept({ ...value, idempotency_key: key })
}

const unpack = promisify(gunzip)

type BodyLimits = { readonly bodyBytesMax: number; readonly bodyTimeoutMs: number }

function tooLarge(limit: number, when = ''): Refusal {
  return refuse('body_too_large', `The body is larger than ${limit} bytes${when}.`, { facts: { limit_bytes: limit } })
}

/** Returns the decoded bytes of the body, from Node's own stream if there is one. Stops reading at the limit. */
export async function readBody(
  request: Request,
  limits: BodyLimits,
  incoming?: Readable,
): Promise<Decision<Uint8Array>> {
  const packing = (request.headers.get('content-encoding') ?? 'identity').trim().toLowerCase()
  if (packing !== 'identity' && packing !== 'gzip' && packing !== '') {
    return refuse('encoding_unsupported', 'Only plain and gzip bodies are supported.', {
      path: 'Content-Encoding',
      hint: 'Send the body without Content-Encoding, or with gzip only.',
      facts: { allowed: ['identity', 'gzip'] },
    })
  }
  const announced = Number(request.headers.get('content-length') ?? 0)
  if (announced > limits.bodyBytesMax) return tooLarge(limits.bodyBytesMax)
  const bytes = await (incoming ? collect(incoming, limits) : collectWeb(request, limits))
  if (!bytes.ok || packing !== 'gzip' || bytes.value.length === 0) return bytes
  return unpackBody(bytes.value, limits.bodyBytesMax)
}

/** For a request without a socket. */
async function collectWeb({ body }: Request, limits: BodyLimits): Promise<Decision<Uint8Array>> {
  if (body === null) return accept(new Uint8Array())
  const stream = Readable.fromWeb(body)
  const bytes = await collect(stream, limits)
  stream.destroy()
  return bytes
}

/** Leaves the stream as it is when it gives up: the answer is still to be sent over its socket. */
function collect(stream: Readable, limits: BodyLimits): Promise<Decision<Uint8Array>> {
  return new Promise((resolve) => {
    const chunks: Uint8Array[] = []
    let size = 0
    const settle = (answer: Decision<Uint8Array>) => {
      clearTimeout(timer)
      stream.off('data', take).pause()
      resolve(answer)
    }
    const take = (chunk: Uint8Array) => {
      size += chunk.byteLength
      if (size > limits.bodyBytesMax) settle(tooLarge(limits.bodyBytesMax))
      else chunks.push(chunk)
    }
    // The sender disconnected: the answer is not read, but must not count as a server error.
    const lose = () => settle(refuse('api.request.malformed', 'The body ended before it was complete.'))
    const timer = setTimeout(() => {
      settle(
        refuse('request_timeout', 'The body did not arrive in time.', {
          hint: 'Send the request again without pauses.',
        }),
      )
    }, limits.bodyTimeoutMs)
    if (stream.destroyed) return lose()
    stream.on('error', lose).on('close', lose)
    stream.on('end', () => settle(accept(Buffer.concat(chunks, size))))
    stream.on('data', take)
  })
}

async function unpackBody(bytes: Uint8Array, limit: number): Promise<Decision<Uint8Array>> {
  try {
    return accept(await unpack(bytes, { maxOutputLength: limit }))
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ERR_BUFFER_TOO_LARGE') return tooLarge(limit, ' after decompression')
    return refuse('api.request.malformed', 'The body is not valid gzip.', { path: 'Content-Encoding' })
  }
}
