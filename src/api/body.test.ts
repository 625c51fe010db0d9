import assert from 'node:assert/strict'
import { createReadStream } from 'node:fs'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { createGzip, gzipSync } from 'node:zlib'
import { buffer } from 'node:stream/consumers'
import { until } from '#test/until'
import { readBody } from './body.ts'

const limits = { bodyBytesMax: 1_048_576, bodyTimeoutMs: 60_000 }

type Body = ConstructorParameters<typeof Response>[0]

function aRequest(body: Body, headers: Record<string, string> = {}): Request {
  const duplex = body instanceof ReadableStream ? { duplex: 'half' as const } : {}
  return new Request('http://localhost/', { method: 'POST', body: body ?? null, headers, ...duplex })
}
const code = async (request: Request, given = limits) => {
  const read = await readBody(request, given)
  return read.ok ? `${read.value.length} bytes` : read.code
}
const codeOf = (read: Awaited<ReturnType<typeof readBody>>) => (read.ok ? 'read' : read.code)
/** A source that never ends and counts the chunks that were read. */
function anEndlessBody() {
  const given = { chunks: 0, cancelled: false }
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      given.chunks += 1
      controller.enqueue(new Uint8Array(65_536))
    },
    cancel() {
      given.cancelled = true
    },
  })
  return { body, given }
}

test('exactly the limit is read, one byte more is not', async () => {
  assert.equal(await code(aRequest(new Uint8Array(1_048_576))), '1048576 bytes')
  assert.equal(await code(aRequest(new Uint8Array(1_048_577))), 'body_too_large')
  assert.equal(await code(aRequest(null)), '0 bytes')
})

test('a body announced as too large is not read at all', async () => {
  const { body, given } = anEndlessBody()
  const request = aRequest(body, { 'content-length': '1048577' })
  assert.equal(await code(request), 'body_too_large')
  // A stream fills its own buffer of one chunk before anybody asks.
  assert.ok(given.chunks <= 1, `${given.chunks} chunks were taken`)
})

test('a body that never ends is stopped at the limit', async () => {
  const { body, given } = anEndlessBody()
  assert.equal(await code(aRequest(body)), 'body_too_large')
  assert.ok(given.chunks <= 20, `${given.chunks} chunks were taken`)
  await until(() => given.cancelled, 'its end')
})

test('a body that stops arriving is refused in time', async () => {
  const silent = new ReadableStream<Uint8Array>({ start: (controller) => controller.enqueue(new Uint8Array(5)) })
  const request = aRequest(silent, { 'content-length': '10' })
  assert.equal(await code(request, { ...limits, bodyTimeoutMs: 200 }), 'request_timeout')
})

test('a sender that disconnects is not a server error', async () => {
  const broken = new ReadableStream<Uint8Array>({ pull: (controller) => controller.error(new Error('ECONNRESET')) })
  assert.equal(await code(aRequest(broken)), 'api.request.malformed')
})

test('the body comes from the stream of the socket, and no web stream is opened', async () => {
  const request = {
    headers: new Headers(),
    get body(): never {
      throw new Error('The web stream was opened.')
    },
  }
  const bytesOf = async (stream: Readable) => readBody(request as unknown as Request, limits, stream)
  const read = await bytesOf(Readable.from([Buffer.from('{"a"'), Buffer.from(':1}')]))
  assert.equal(read.ok && Buffer.from(read.value).toString(), '{"a":1}')
  const large = Readable.from([new Uint8Array(1_048_576), new Uint8Array(1), new Uint8Array(1)])
  assert.equal(codeOf(await bytesOf(large)), 'body_too_large')
  assert.equal(large.destroyed, false, 'the answer still needs the socket')
  const gone = new Readable({ read() {} })
  gone.destroy()
  assert.equal(codeOf(await bytesOf(gone)), 'api.request.malformed')
})

test('gzip is unpacked, up to the limit', async () => {
  const packed = gzipSync(Buffer.from('{"a":1}'))
  const read = await readBody(aRequest(packed, { 'content-encoding': 'gzip' }), limits)
  assert.equal(read.ok && Buffer.from(read.value).toString(), '{"a":1}')
  assert.equal(
    await code(aRequest(gzipSync(new Uint8Array(1_048_576)), { 'content-encoding': 'GZIP' })),
    '1048576 bytes',
  )
  assert.equal(await code(aRequest(Buffer.from('not gzip'), { 'content-encoding': 'gzip' })), 'api.request.malformed')
  assert.equal(await code(aRequest(packed.subarray(0, -4), { 'content-encoding': 'gzip' })), 'api.request.malformed')
})

test('a gigabyte of zeros in less than a megabyte is stopped after decompression', async () => {
  // /dev/zero through gzip: 1 GiB packs to about a megabyte at the best level, 256 MiB to a quarter of it.
  const zeros = createReadStream('/dev/zero', { end: 268_435_455 })
  const bomb = await buffer(zeros.pipe(createGzip({ level: 9 })))
  assert.ok(bomb.length < limits.bodyBytesMax)
  const read = await readBody(aRequest(bomb, { 'content-encoding': 'gzip' }), limits)
  assert.equal(!read.ok && read.code, 'body_too_large')
  assert.match(read.ok ? '' : read.reason, /after decompression/)
})

test('other encodings, and nested encodings, are refused', async () => {
  for (const packing of ['br', 'deflate', 'zstd', 'gzip, gzip', 'br, gzip, br', 'gzip;q=1', 'identity, gzip', 'x']) {
    assert.equal(await code(aRequest('{}', { 'content-encoding': packing })), 'encoding_unsupported', packing)
  }
  assert.equal(await code(aRequest('{}', { 'content-encoding': 'identity' })), '2 bytes')
})
