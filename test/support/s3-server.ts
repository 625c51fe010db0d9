/** An S3 server on loopback: keeps objects in memory, checks every signature, and fails as a test says. */
import { createHash, createHmac } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type S3Trouble = 'unavailable' | 'hang_up' | 'silence' | 'cut_body' | 'drop_write'

export type S3Server = {
  readonly url: string
  readonly bucket: string
  readonly keys: { readonly accessKey: string; readonly secretKey: string; readonly region: string }
  readonly objects: Map<string, { bytes: Buffer; modified: Date }>
  /** What happens to the next requests, in order. Afterwards every request succeeds. */
  readonly troubles: S3Trouble[]
  /** Every request with the status of its answer. */
  readonly heard: string[]
  close(): Promise<void>
}

const PAGE = 2
const hmac = (key: Buffer | string, text: string) => createHmac('sha256', key).update(text).digest()
const sha256 = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest('hex')

export async function startS3Server(): Promise<S3Server> {
  const keys = { accessKey: 'AKIDEXAMPLE', secretKey: 'secret/with+signs', region: 'eu-central-1' }
  const objects: S3Server['objects'] = new Map()
  const troubles: S3Trouble[] = []
  const heard: string[] = []
  const bucket = 'concord-test'

  function answer(request: IncomingMessage, body: Buffer, response: ServerResponse): void {
    const url = new URL(request.url ?? '/', 'http://host')
    const end = (status: number, text: Buffer | string = '', headers: Record<string, string | number> = {}) => {
      heard.push(`${request.method} ${url.pathname} ${status}`)
      response.writeHead(status, { 'content-length': Buffer.byteLength(text), ...headers })
      response.end(request.method === 'HEAD' ? undefined : text)
    }
    const problem = (status: number, code: string) => end(status, `<Error><Code>${code}</Code></Error>`)
    const trouble = troubles.shift()
    if (trouble === 'silence') return
    if (trouble === 'hang_up') return void request.socket.destroy()
    if (trouble === 'unavailable') return problem(503, 'SlowDown')
    if (!isSigned(request, url, body, keys)) return problem(403, 'SignatureDoesNotMatch')
    if (!url.pathname.startsWith(`/${bucket}`)) return problem(404, 'NoSuchBucket')
    const key = decodeURIComponent(url.pathname.slice(bucket.length + 2))
    const object = objects.get(key)
    switch (request.method) {
      case 'PUT':
        if (trouble !== 'drop_write') objects.set(key, { bytes: body, modified: new Date() })
        return end(200)
      case 'DELETE':
        objects.delete(key)
        return end(204)
      case 'HEAD':
      case 'GET':
        if (url.searchParams.get('list-type') === '2') return end(200, listing(objects, url))
        if (!object) return problem(404, 'NoSuchKey')
        if (trouble === 'cut_body') {
          response.writeHead(200, { 'content-length': object.bytes.length })
          response.write(object.bytes.subarray(0, object.bytes.length >> 1))
          return void setTimeout(() => request.socket.destroy(), 20)
        }
        return end(200, object.bytes, { 'content-length': object.bytes.length })
      default:
        return problem(405, 'MethodNotAllowed')
    }
  }

  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => answer(request, Buffer.concat(chunks), response))
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bucket,
    keys,
    objects,
    troubles,
    heard,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Written from the published specification and not from the client: checks the received bytes. */
function isSigned(request: IncomingMessage, url: URL, body: Buffer, keys: S3Server['keys']): boolean {
  const header = request.headers.authorization ?? ''
  const [, who, day = '', region, names = '', signature] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, SignedHeaders=([^,]+), Signature=(\w+)$/.exec(
      header,
    ) ?? []
  const date = String(request.headers['x-amz-date'] ?? '')
  if (who !== keys.accessKey || region !== keys.region || !date.startsWith(day)) return false
  if (request.headers['x-amz-content-sha256'] !== sha256(body)) return false
  if (!['host', 'x-amz-content-sha256', 'x-amz-date'].every((name) => names.split(';').includes(name))) return false
  const query = url.search
    .slice(1)
    .split('&')
    .filter(Boolean)
    .map((pair) => (pair.includes('=') ? pair : `${pair}=`))
  const canonical = [
    request.method,
    url.pathname,
    query.sort().join('&'),
    ...names.split(';').map((name) => `${name}:${String(request.headers[name])}`),
    '',
    names,
    sha256(body),
  ].join('\n')
  const scope = `${day}/${keys.region}/s3/aws4_request`
  const text = ['AWS4-HMAC-SHA256', date, scope, sha256(canonical)].join('\n')
  const key = [day, keys.region, 's3', 'aws4_request'].reduce<Buffer | string>(hmac, `AWS4${keys.secretKey}`)
  return hmac(key, text).toString('hex') === signature
}

/** Two keys per page, so that every list has several pages. */
function listing(objects: S3Server['objects'], url: URL): string {
  const prefix = url.searchParams.get('prefix') ?? ''
  const from = Number(url.searchParams.get('continuation-token')?.split('&')[0] ?? 0)
  const all = [...objects].filter(([key]) => key.startsWith(prefix)).sort(([a], [b]) => (a < b ? -1 : 1))
  const items = all
    .slice(from, from + PAGE)
    .map(
      ([key, { modified }]) =>
        `<Contents><Key>${key}</Key><LastModified>${modified.toISOString()}</LastModified></Contents>`,
    )
  const more = from + PAGE < all.length
  const next = more ? `<NextContinuationToken>${from + PAGE}&amp;=</NextContinuationToken>` : ''
  return `<?xml version="1.0"?><ListBucketResult><IsTruncated>${more}</IsTruncated>${items.join('')}${next}</ListBucketResult>`
}
