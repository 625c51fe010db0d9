/** The signature against the examples that AWS publishes for S3, and the effect of changing any part. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { amzDate, EMPTY_SHA256, type RequestToSign, signRequest } from './s3-store.ts'

const keys = {
  accessKey: 'AKIAIOSFODNN7EXAMPLE',
  secretKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
  region: 'us-east-1',
  service: 's3',
}
const at = new Date('2013-05-24T00:00:00Z')
const host = 'https://examplebucket.s3.amazonaws.com'

function aRequest(method: string, path: string, headers: Record<string, string> = {}, body = ''): RequestToSign {
  const bodySha256 = createHash('sha256').update(body).digest('hex')
  const own = { 'x-amz-content-sha256': bodySha256, 'x-amz-date': amzDate(at) }
  return { method, url: new URL(host + path), headers: { ...headers, ...own }, bodySha256, at }
}

const signatureOf = (request: RequestToSign) => /Signature=([0-9a-f]{64})$/.exec(signRequest(keys, request))?.[1]

describe('signRequest', () => {
  test('the four published examples of S3', () => {
    const put = {
      date: 'Fri, 24 May 2013 00:00:00 GMT',
      'x-amz-storage-class': 'REDUCED_REDUNDANCY',
    }
    const published: readonly (readonly [RequestToSign, string])[] = [
      [
        aRequest('GET', '/test.txt', { range: 'bytes=0-9' }),
        'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
      ],
      [
        aRequest('PUT', '/test%24file.text', put, 'Welcome to Amazon S3.'),
        '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
      ],
      [aRequest('GET', '/?lifecycle'), 'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543'],
      [aRequest('GET', '/?max-keys=2&prefix=J'), '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7'],
    ]
    for (const [request, signature] of published) assert.equal(signatureOf(request), signature, request.url.href)
  })

  test('the header names the key, the scope and the signed headers in order', () => {
    assert.match(
      signRequest(keys, aRequest('GET', '/test.txt', { Range: 'bytes=0-9' })),
      /^AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE\/20130524\/us-east-1\/s3\/aws4_request, SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, Signature=[0-9a-f]{64}$/,
    )
    assert.equal(EMPTY_SHA256, 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
  })

  test('the order of query parameters does not matter; any other change does', () => {
    const one = aRequest('GET', '/?a=1&b=2&B=3')
    assert.equal(signatureOf(one), signatureOf(aRequest('GET', '/?B=3&b=2&a=1')))
    const other = [
      aRequest('PUT', '/?a=1&b=2&B=3'),
      aRequest('GET', '/x?a=1&b=2&B=3'),
      aRequest('GET', '/?a=1&b=2&B=4'),
      aRequest('GET', '/?a=1&b=2&B=3', { range: 'bytes=0-1' }),
      aRequest('GET', '/?a=1&b=2&B=3', {}, 'x'),
      { ...one, at: new Date('2013-05-24T00:00:01Z') },
    ]
    for (const request of other) assert.notEqual(signatureOf(request), signatureOf(one))
  })

  test('any query text is signed as it is sent', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const url = new URL(host)
        url.searchParams.set('prefix', text)
        const request = aRequest('GET', '/')
        assert.equal(signatureOf({ ...request, url }), signatureOf({ ...request, url: new URL(url.href) }))
      }),
    )
  })
})
