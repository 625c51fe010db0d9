/** Stores blobs in an S3 bucket through signed requests. */
import { createHash, createHmac } from 'node:crypto'
import type { Clock } from '#kernel/clock'
import { accept, type Decision } from '#kernel/refusal'
import {
  type BlobContent,
  type BlobEntry,
  BlobRefused,
  type BlobStore,
  checkedStream,
  chunksOf,
  isSha256,
  Measure,
  type OpenBlob,
  refuseAltered,
  refuseMissingBlob,
  refuseUnavailable,
  sha256Of,
  streamOf,
} from './blob-store.ts'

type SigningKeys = {
  readonly accessKey: string
  readonly secretKey: string
  readonly region: string
  /** `s3`; the published examples use others too. */
  readonly service: string
}

export type RequestToSign = {
  readonly method: string
  readonly url: URL
  /** Header names are case-insensitive. All headers are signed; `host` comes from the URL. */
  readonly headers: Readonly<Record<string, string>>
  /** SHA-256 of the body in hex. */
  readonly bodySha256: string
  readonly at: Date
}

export const EMPTY_SHA256 = createHash('sha256').digest('hex')

/** `20130524T000000Z` */
export function amzDate(at: Date): string {
  return at.toISOString().replace(/[-:]|\.\d{3}/g, '')
}

/** The value of the header `authorization`. */
export function signRequest(keys: SigningKeys, { method, url, headers, bodySha256, at }: RequestToSign): string {
  const date = amzDate(at)
  const scope = `${date.slice(0, 8)}/${keys.region}/${keys.service}/aws4_request`
  const signed = Object.entries({ ...headers, host: url.host })
    .map(([name, value]) => [name.toLowerCase(), value.trim().replaceAll(/ +/g, ' ')] as const)
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
  const names = signed.map(([name]) => name).join(';')
  const canonical = [
    method,
    canonicalPath(url),
    canonicalQuery(url),
    ...signed.map(([name, value]) => `${name}:${value}`),
    '',
    names,
    bodySha256,
  ].join('\n')
  const text = ['AWS4-HMAC-SHA256', date, scope, createHash('sha256').update(canonical).digest('hex')].join('\n')
  const signature = hmac(signingKey(keys, date.slice(0, 8)), text).toString('hex')
  return `AWS4-HMAC-SHA256 Credential=${keys.accessKey}/${scope}, SignedHeaders=${names}, Signature=${signature}`
}

function signingKey({ secretKey, region, service }: SigningKeys, day: string): Buffer {
  return [day, region, service, 'aws4_request'].reduce<Buffer>(hmac, Buffer.from(`AWS4${secretKey}`))
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}

/** Encodes everything but the unreserved characters of RFC 3986; `encodeURIComponent` leaves five more unencoded. */
function encode(text: string): string {
  return encodeURIComponent(text).replaceAll(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
}

/** S3 expects the path encoded once. */
function canonicalPath({ pathname }: URL): string {
  return pathname
    .split('/')
    .map((part) => encode(decodeURIComponent(part)))
    .join('/')
}

function canonicalQuery({ searchParams }: URL): string {
  return [...searchParams]
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .toSorted()
    .join('&')
}

type S3StoreOptions = {
  /** `https://s3.eu-central-1.amazonaws.com`, `http://127.0.0.1:9000` … The bucket is the first part of the path. */
  readonly url: string
  readonly bucket: string
  readonly region: string
  readonly accessKey: string
  readonly secretKey: string
  readonly now: Clock
  readonly contentBytesMax: number
  readonly timeoutMs?: number
}

/** Objects up to this size are verified before the first byte is returned, larger ones while they are read. */
const CHECKED_BYTES_MAX = 8_388_608
const TIMEOUT_MS = 30_000
const FOLDER = 'artifacts'

type Call = {
  readonly method: string
  readonly key?: string
  readonly query?: Record<string, string>
  readonly body?: Uint8Array
  readonly signal?: AbortSignal
}

export function openS3Store(options: S3StoreOptions): BlobStore {
  const { bucket, now, contentBytesMax, timeoutMs = TIMEOUT_MS } = options
  const keys = { ...options, service: 's3' }
  const keyOf = (sha256: string) => `${FOLDER}/${sha256.slice(0, 2)}/${sha256}`

  async function send({ method, key, query = {}, body, signal }: Call): Promise<Response> {
    const url = new URL(options.url)
    url.pathname = [url.pathname.replace(/\/+$/, ''), bucket, ...(key === undefined ? [] : [key])].join('/')
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
    const bodySha256 = body ? sha256Of(body) : EMPTY_SHA256
    const at = now()
    const headers = { 'x-amz-content-sha256': bodySha256, 'x-amz-date': amzDate(at) }
    const authorization = signRequest(keys, { method, url, headers, bodySha256, at })
    return fetch(url, {
      method,
      headers: { ...headers, authorization },
      // The content may be a view of a larger buffer, which fetch does not accept.
      ...(body ? { body: new Uint8Array(body) } : {}),
      redirect: 'error',
      signal: signal ?? AbortSignal.timeout(timeoutMs),
    })
  }

  /** Throws on every unexpected status, with the error code of the store. */
  async function ask(call: Call, ...expected: readonly number[]): Promise<Response> {
    const response = await send(call)
    if (expected.includes(response.status)) return response
    const body = await response.text().catch(() => '')
    const code = /<Code>([\w.]{1,80})<\/Code>/.exec(body)?.[1]
    throw new Error(`${call.method} returned ${response.status}${code ? ` ${code}` : ''}`)
  }

  async function open(sha256: string): Promise<Decision<OpenBlob>> {
    const limit = new AbortController()
    const late = AbortSignal.timeout(timeoutMs)
    const stop = () => limit.abort(late.reason)
    late.addEventListener('abort', stop, { once: true })
    try {
      return await openWithin(sha256, limit.signal)
    } finally {
      // The timeout covers the answer of the store, not the time that a reader takes.
      late.removeEventListener('abort', stop)
    }
  }

  async function openWithin(sha256: string, signal: AbortSignal): Promise<Decision<OpenBlob>> {
    const response = await ask({ method: 'GET', key: keyOf(sha256), signal }, 200, 404)
    if (response.status === 404) {
      await response.body?.cancel()
      return refuseMissingBlob(sha256)
    }
    const announced = Number(response.headers.get('content-length') ?? Number.NaN)
    if (response.body && announced > CHECKED_BYTES_MAX) return accept(passing(response.body, sha256, announced))
    const bytes = new Uint8Array(await response.arrayBuffer())
    if (sha256Of(bytes) !== sha256) return refuseAltered(sha256)
    return accept({
      sizeBytes: bytes.byteLength,
      isChecked: true,
      stream: (range) => streamOf(range ? bytes.subarray(range.start, range.end + 1) : bytes),
      close: async () => {},
    })
  }

  return {
    scheme: 's3',
    async put(content: BlobContent) {
      const measure = new Measure(contentBytesMax)
      const chunks: Uint8Array[] = []
      try {
        for await (const chunk of chunksOf(content)) {
          measure.add(chunk)
          // The caller may reuse its buffer for the next chunk.
          chunks.push(content instanceof Uint8Array ? chunk : Uint8Array.from(chunk))
        }
      } catch (error) {
        if (error instanceof BlobRefused) return error.refusal
        throw error
      }
      const ref = measure.ref()
      try {
        const answer = await ask({ method: 'PUT', key: keyOf(ref.sha256), body: Buffer.concat(chunks) }, 200)
        await answer.body?.cancel()
        return accept(ref)
      } catch (error) {
        return refuseUnavailable('s3', error)
      }
    },
    async has(sha256) {
      const answer = await ask({ method: 'HEAD', key: keyOf(sha256) }, 200, 404)
      await answer.body?.cancel()
      return answer.status === 200
    },
    open: (sha256) => open(sha256).catch((error: unknown) => refuseUnavailable('s3', error)),
    async *list(): AsyncGenerator<BlobEntry> {
      let token: string | undefined
      do {
        const query = { 'list-type': '2', prefix: `${FOLDER}/`, ...(token ? { 'continuation-token': token } : {}) }
        const page = await (await ask({ method: 'GET', query }, 200)).text()
        yield* entriesOf(page)
        token = fieldOf(page, 'NextContinuationToken')
      } while (token !== undefined)
    },
    async remove(sha256) {
      const answer = await ask({ method: 'DELETE', key: keyOf(sha256) }, 200, 204, 404)
      await answer.body?.cancel()
    },
    // S3 stores no incomplete objects.
    removeUnfinished: async () => 0,
  }
}

function passing(body: ReadableStream<Uint8Array>, sha256: string, sizeBytes: number): OpenBlob {
  return {
    sizeBytes,
    isChecked: false,
    stream: () => checkedStream(body, sha256),
    close: () => body.cancel(),
  }
}

function* entriesOf(page: string): Generator<BlobEntry> {
  for (const [, item = ''] of page.matchAll(/<Contents>([\s\S]*?)<\/Contents>/g)) {
    const sha256 = fieldOf(item, 'Key')?.split('/').at(-1) ?? ''
    const writtenAt = new Date(fieldOf(item, 'LastModified') ?? '')
    if (isSha256(sha256) && !Number.isNaN(writtenAt.getTime())) yield { sha256, writtenAt }
  }
}

/** Keys and tokens are plain text, so only the entities of XML itself are decoded. */
function fieldOf(xml: string, name: string): string | undefined {
  const text = new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml)?.[1]
  return text?.replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')
}
