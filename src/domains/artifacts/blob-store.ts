/** The port of every place where content can lie: under its SHA-256, whole or not at all, and checked when it is read. */
import { createHash, type Hash } from 'node:crypto'
import { type Decision, refuse, type Refusal } from '#kernel/refusal'

const blobSchemes = ['disk', 's3'] as const
export type BlobScheme = (typeof blobSchemes)[number]

export type BlobContent = Uint8Array | AsyncIterable<Uint8Array>
export type BlobRef = { readonly sha256: string; readonly sizeBytes: number }
export type BlobEntry = { readonly sha256: string; readonly writtenAt: Date }
/** Both ends belong to it; from 0. */
export type ByteRange = { readonly start: number; readonly end: number }

export type OpenBlob = {
  readonly sizeBytes: number
  /** False: it is checked while it is read, and can be read as a whole only. */
  readonly isChecked: boolean
  /** To be called once; the reader's end or cancel lets go of the blob. */
  stream(range?: ByteRange): ReadableStream<Uint8Array>
  /** For one that is not read after all. */
  close(): Promise<void>
}

export type BlobStore = {
  readonly scheme: BlobScheme
  put(content: BlobContent): Promise<Decision<BlobRef>>
  /** Throws when the store cannot tell. */
  has(sha256: string): Promise<boolean>
  open(sha256: string): Promise<Decision<OpenBlob>>
  /** What is there, in no order; blobs that come or go meanwhile may be missing or may be among them. */
  list(): AsyncIterable<BlobEntry>
  /** Nothing happens if it is not there. */
  remove(sha256: string): Promise<void>
  /** Drops what writers that died have begun before this time; how many. */
  removeUnfinished(before: Date): Promise<number>
}

const SHA256 = /^[0-9a-f]{64}$/

export function isSha256(text: string): boolean {
  return SHA256.test(text)
}

export function sha256Of(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

export async function* chunksOf(content: BlobContent): AsyncGenerator<Uint8Array> {
  if (content instanceof Uint8Array) yield content
  else yield* content
}

/** Counts and hashes what passes; one byte too many is a refusal that the writer throws and the store gives back. */
export class Measure {
  readonly #hash: Hash = createHash('sha256')
  readonly #bytesMax: number
  sizeBytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  add(chunk: Uint8Array): void {
    this.sizeBytes += chunk.byteLength
    if (this.sizeBytes > this.#bytesMax) throw new BlobRefused(refuseTooLarge(this.#bytesMax))
    this.#hash.update(chunk)
  }

  ref(): BlobRef {
    return { sha256: this.#hash.digest('hex'), sizeBytes: this.sizeBytes }
  }
}

/** Carries a refusal out of a loop over somebody else's content. */
export class BlobRefused extends Error {
  readonly refusal: Refusal
  constructor(refusal: Refusal) {
    super(refusal.reason)
    this.name = 'BlobRefused'
    this.refusal = refusal
  }
}

function refuseTooLarge(bytesMax: number): Refusal {
  return refuse('artifacts.content.too_large', `the content is larger than ${bytesMax} bytes`, {
    hint: 'Store it elsewhere and keep a reference to it as the content.',
    facts: { bytes_max: bytesMax },
  })
}

export function refuseMissing(sha256: string): Refusal {
  return refuse('artifacts.content.missing', 'the content of this artifact is not in its store', {
    hint: 'Restore the blob from a backup; its name is its SHA-256.',
    facts: { sha256 },
  })
}

export function refuseAltered(sha256: string): Refusal {
  return refuse('artifacts.content.altered', 'the content of this artifact is not what was written', {
    hint: 'Restore the blob from a backup, or write the same content again.',
    facts: { sha256 },
  })
}

export function refuseUnavailable(scheme: BlobScheme, cause: unknown): Refusal {
  const why = cause instanceof Error ? cause.message : String(cause)
  return refuse(
    'artifacts.store.unavailable',
    `the ${scheme} store of artifacts does not answer: ${why.slice(0, 200)}`,
    {
      hint: 'Ask again; `concord doctor --settings` lists how the store is configured.',
    },
  )
}
