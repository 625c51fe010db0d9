/** Reads a request body with limits on size, time and decompressed size. */
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'

const unpack = promisify(gunzip)

export type BodyLimits = { readonly bodyBytesMax: number; readonly bodyTimeoutMs: number }

function tooLarge(limit: number, when = ''): Refusal {
  return refuse('body_too_large', `The body is larger than ${limit} bytes${when}.`, { facts: { limit_bytes: limit } })
}

const LATE = Symbol('late')

/** Returns the decoded bytes of the body. Stops reading at the limit. */
export async function readBody(request: Request, limits: BodyLimits): Promise<Decision<Uint8Array>> {
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
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<typeof LATE>((resolve) => {
    timer = setTimeout(resolve, limits.bodyTimeoutMs, LATE)
  })
  try {
    const bytes = await collect(request, limits.bodyBytesMax, late)
    if (!bytes.ok || packing !== 'gzip' || bytes.value.length === 0) return bytes
    return await unpackBody(bytes.value, limits.bodyBytesMax)
  } finally {
    clearTimeout(timer)
  }
}

async function collect(request: Request, limit: number, late: Promise<typeof LATE>): Promise<Decision<Uint8Array>> {
  if (request.body === null) return accept(new Uint8Array())
  const reader = request.body.getReader()
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for (;;) {
      const read = await Promise.race([reader.read(), late])
      if (read === LATE) {
        return refuse('request_timeout', 'The body did not arrive in time.', {
          hint: 'Send the request again without pauses.',
        })
      }
      if (read.done) return accept(Buffer.concat(chunks, size))
      size += read.value.byteLength
      if (size > limit) return tooLarge(limit)
      chunks.push(read.value)
    }
  } catch {
    // The sender disconnected: the answer is not read, but must not count as a server error.
    return refuse('api.request.malformed', 'The body ended before it was complete.')
  } finally {
    // Not awaited: cancelling may itself wait for a silent sender.
    void reader.cancel().catch(() => {})
  }
}

async function unpackBody(bytes: Uint8Array, limit: number): Promise<Decision<Uint8Array>> {
  try {
    return accept(await unpack(bytes, { maxOutputLength: limit }))
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ERR_BUFFER_TOO_LARGE') return tooLarge(limit, ' after decompression')
    return refuse('api.request.malformed', 'The body is not valid gzip.', { path: 'Content-Encoding' })
  }
}
