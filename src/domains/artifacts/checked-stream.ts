/** Streams of content: from bytes that are known to be right, or hashed while it passes, in which case the end tells. */
import { createHash } from 'node:crypto'
import { BlobRefused, refuseAltered } from './blob-store.ts'

export function streamOf(bytes: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      if (bytes.byteLength > 0) controller.enqueue(bytes)
      controller.close()
    },
  })
}

/** The last chunk is held back until the hash is right: altered content never ends well, whoever reads it. */
export function checkedStream(body: ReadableStream<Uint8Array>, sha256: string): ReadableStream<Uint8Array> {
  const hash = createHash('sha256')
  let held: Uint8Array | undefined
  return body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        hash.update(chunk)
        if (held) controller.enqueue(held)
        held = chunk
      },
      flush(controller) {
        if (hash.digest('hex') !== sha256) controller.error(new BlobRefused(refuseAltered(sha256)))
        else if (held) controller.enqueue(held)
      },
    }),
  )
}
