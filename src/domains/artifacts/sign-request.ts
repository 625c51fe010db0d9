/** AWS Signature Version 4 for one request: pure, so that it can be held against the published examples. */
import { createHash, createHmac } from 'node:crypto'

export type SigningKeys = {
  readonly accessKey: string
  readonly secretKey: string
  readonly region: string
  /** `s3`; another one in the published examples. */
  readonly service: string
}

export type RequestToSign = {
  readonly method: string
  readonly url: URL
  /** Names in any case; all of them are signed, `host` comes from the address. */
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

/** What RFC 3986 leaves alone stays; everything else is percent and upper-case hex, which `encodeURIComponent` does for all but five. */
function encode(text: string): string {
  return encodeURIComponent(text).replaceAll(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
}

/** S3 takes the path as it is, encoded once. */
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
