/** Reads a request body with limits on size, time and unpacked size, so that no sender decides how much memory it takes. */
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'

const unpack = promisify(gunzip)

export type BodyLimits = { readonly bodyBytesMax: number; readonly bodyTimeoutMs: number }

function tooLarge(limit: number, when = ''): Refusal {
  return refuse('body_too_large', `The body is larger than ${limit} bytes${when}.`, { facts: { limit_bytes: limit } })
}

const LATE = Symbol('late')

/** The bytes of the body after decoding; nothing beyond the limit is kept, and the rest of a too large one is not read. */
export async function readBody(request: Request, limits: BodyLimits): Promise<Decision<Uint8Array>> {
  const packing = (request.headers.get('content-encoding') ?? 'identity').trim().toLowerCase()
  if (packing !== 'identity' && packing !== 'gzip' && packing !== '') {
    return refuse('encoding_unsupported', 'Only plain and gzip bodies are read.', {
      path: 'Content-Encoding',
      hint: 'Send the body without Content-Encoding, or with gzip alone.',
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
          hint: 'Send the request again, in one go.',
        })
      }
      if (read.done) return accept(Buffer.concat(chunks, size))
      size += read.value.byteLength
      if (size > limit) return tooLarge(limit)
      chunks.push(read.value)
    }
  } catch {
    // The sender went away in the middle; nobody reads the answer, but it must not count as our fault.
    return refuse('api.request.malformed', 'The body ended before it was complete.')
  } finally {
    // Never awaited: cancelling may itself wait for a sender that stays silent.
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
