/** Blob stores: the port, where content is stored and how it is read, and the sweep of unneeded blobs. */
import { createHash, type Hash } from 'node:crypto'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { failpoint } from '#store'
import { listNeeded, lockBlob, type StoredArtifact } from './artifact.ts'
import type { CheckedDraft } from './check-draft.ts'
import type { ArtifactDeps } from './deps.ts'

const blobSchemes = ['disk', 's3'] as const
type BlobScheme = (typeof blobSchemes)[number]

export type BlobContent = Uint8Array | AsyncIterable<Uint8Array>
export type BlobRef = { readonly sha256: string; readonly sizeBytes: number }
export type BlobEntry = { readonly sha256: string; readonly writtenAt: Date }
/** Counted from 0; includes both ends. */
type ByteRange = { readonly start: number; readonly end: number }

export type OpenBlob = {
  readonly sizeBytes: number
  /** False when the content is checked while it is read; then it can only be read as a whole. */
  readonly isChecked: boolean
  /** Call it once. The end or the cancellation of the stream releases the blob. */
  stream(range?: ByteRange): ReadableStream<Uint8Array>
  /** Releases a blob that is not read. */
  close(): Promise<void>
}

export type BlobStore = {
  readonly scheme: BlobScheme
  put(content: BlobContent): Promise<Decision<BlobRef>>
  /** Throws when the store does not answer. */
  has(sha256: string): Promise<boolean>
  open(sha256: string): Promise<Decision<OpenBlob>>
  /** Lists blobs in no order. Blobs that appear or disappear meanwhile may be listed or not. */
  list(): AsyncIterable<BlobEntry>
  /** Does nothing for a blob that does not exist. */
  remove(sha256: string): Promise<void>
  /** Removes unfinished writes that began before this time, and returns their number. */
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

/** Counts and hashes content. Throws a `BlobRefused` beyond the limit, which the store returns as a refusal. */
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

/** Carries a refusal out of a loop over the caller's content. */
export class BlobRefused extends Error {
  readonly refusal: Refusal
  constructor(refusal: Refusal) {
    super(refusal.reason)
    this.name = 'BlobRefused'
    this.refusal = refusal
  }
}

function refuseTooLarge(bytesMax: number): Refusal {
  return refuse('artifacts.content.too_large', `The content is larger than ${bytesMax} bytes.`, {
    hint: 'Store it elsewhere and write a reference to it.',
    facts: { bytes_max: bytesMax },
  })
}

export function refuseMissingBlob(sha256: string): Refusal {
  return refuse('artifacts.content.missing', 'The content of this artifact is missing in its store.', {
    hint: 'Restore the blob from a backup; its name is its SHA-256.',
    facts: { sha256 },
  })
}

export function refuseAltered(sha256: string): Refusal {
  return refuse('artifacts.content.altered', 'The content of this artifact has changed since it was written.', {
    hint: 'Restore the blob from a backup, or write the same content again.',
    facts: { sha256 },
  })
}

export function refuseUnavailable(scheme: BlobScheme, cause: unknown): Refusal {
  const why = cause instanceof Error ? cause.message : String(cause)
  return refuse(
    'artifacts.store.unavailable',
    `The ${scheme} store of artifacts is unavailable: ${why.slice(0, 200)}.`,
    {
      hint: 'Try again. `concord doctor --settings` shows the configuration of the store.',
    },
  )
}

/** Returns undefined for the whole content. */
export function parseRange(header: string | undefined, sizeBytes: number): Decision<ByteRange | undefined> {
  const [, from = '', to = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.replaceAll(' ', '') ?? '') ?? []
  if (from === '' && to === '') return accept(undefined)
  const isSuffix = from === ''
  const start = isSuffix ? Math.max(0, sizeBytes - Number(to)) : Number(from)
  const end = isSuffix || to === '' ? sizeBytes - 1 : Math.min(Number(to), sizeBytes - 1)
  if (start <= end && start < sizeBytes) return accept({ start, end })
  // RFC 9110 ignores a range that ends before it starts.
  if (!isSuffix && to !== '' && Number(to) < Number(from)) return accept(undefined)
  return refuse(
    'artifacts.content.range',
    `The content has ${sizeBytes} bytes, so the requested range is outside of it.`,
    {
      path: 'Range',
      facts: { size_bytes: sizeBytes },
    },
  )
}

export function streamOf(bytes: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      if (bytes.byteLength > 0) controller.enqueue(bytes)
      controller.close()
    },
  })
}

/** Holds the last chunk back until the hash is verified, so a read of altered content fails before its end. */
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

/** Short enough that reading rows stays fast; Postgres stores larger values out of line anyway. */
const INLINE_BYTES_MAX = 4_096

type Located = Pick<StoredArtifact, 'location' | 'checksum' | 'size_bytes'>

export async function storeContent(
  { stores: [first] }: Pick<ArtifactDeps, 'stores'>,
  { content, isText, contentType }: Pick<CheckedDraft, 'content' | 'isText' | 'contentType'>,
): Promise<Decision<Located>> {
  if (isText && content instanceof Uint8Array && content.byteLength <= INLINE_BYTES_MAX) {
    const media = contentType.replaceAll(' ', '')
    return accept({
      location: `data:${media};base64,${Buffer.from(content).toString('base64')}`,
      checksum: `sha256:${sha256Of(content)}`,
      size_bytes: content.byteLength,
    })
  }
  const put = await first.put(content)
  if (!put.ok) return put
  await failpoint('artifacts.blob_written')
  const { sha256, sizeBytes } = put.value
  return accept({ location: `${first.scheme}:${sha256}`, checksum: `sha256:${sha256}`, size_bytes: sizeBytes })
}

type BlobPlace = { readonly store: BlobStore; readonly sha256: string }

/** Returns undefined for content that is in the row or removed. */
export function findPlace({ stores }: Pick<ArtifactDeps, 'stores'>, location: string): BlobPlace | undefined {
  const [scheme, sha256 = ''] = location.split(':')
  const store = stores.find((each) => each.scheme === scheme)
  return store && { store, sha256 }
}

export function removedLocation({ checksum }: Pick<StoredArtifact, 'checksum'>): string {
  return `removed:${checksum.slice('sha256:'.length)}`
}

/** Opens content that matches its checksum, or refuses. */
export async function openContent(
  deps: Pick<ArtifactDeps, 'stores'>,
  { location, checksum }: Pick<StoredArtifact, 'location' | 'checksum'>,
): Promise<Decision<OpenBlob>> {
  const sha256 = checksum.slice('sha256:'.length)
  if (location.startsWith('removed:'))
    return refuse(
      'artifacts.content.removed',
      'The content of this artifact was removed by retention or by an erasure.',
    )
  if (location.startsWith('data:')) {
    const bytes = Buffer.from(location.slice(location.indexOf(',') + 1), 'base64')
    if (sha256Of(bytes) !== sha256) return refuseAltered(sha256)
    return accept({
      sizeBytes: bytes.byteLength,
      isChecked: true,
      stream: (range) => streamOf(range ? bytes.subarray(range.start, range.end + 1) : bytes),
      close: async () => {},
    })
  }
  const place = findPlace(deps, location)
  if (place) return place.store.open(place.sha256)
  return refuse(
    'artifacts.store.unknown',
    `The content is in the ${location.split(':')[0]} store, which is not configured here.`,
    {
      hint: 'Set CONCORD_S3_URL and the other CONCORD_S3_ settings as they were when the artifact was written.',
    },
  )
}

/** Reads the whole content as text. */
export async function readArtifactText(
  deps: Pick<ArtifactDeps, 'stores'>,
  artifact: Pick<StoredArtifact, 'location' | 'checksum'>,
): Promise<Decision<string>> {
  const opened = await openContent(deps, artifact)
  return opened.ok ? accept(await new Response(opened.value.stream()).text()) : opened
}

/** Longer than an effect needs between storing content and writing its row. A shorter time is safe but fails more writes. */
const GRACE_MS = 3_600_000
const BATCH = 500

type SweptBlobs = { readonly removed: number; readonly unfinished: number }

export async function sweepBlobs(
  deps: Pick<ArtifactDeps, 'db' | 'now' | 'stores'>,
  graceMs: number = GRACE_MS,
): Promise<SweptBlobs> {
  const before = new Date(deps.now().getTime() - graceMs)
  const swept = { removed: 0, unfinished: 0 }
  for (const store of deps.stores) {
    swept.unfinished += await store.removeUnfinished(before)
    let batch: string[] = []
    for await (const { sha256, writtenAt } of store.list()) {
      if (writtenAt < before) batch.push(sha256)
      if (batch.length < BATCH) continue
      swept.removed += await removeUnneeded(deps, store, batch)
      batch = []
    }
    swept.removed += await removeUnneeded(deps, store, batch)
  }
  return swept
}

/** Removes the blobs that no row references, and returns their number. */
export async function removeUnneeded(
  { db }: Pick<ArtifactDeps, 'db'>,
  store: BlobStore,
  batch: readonly string[],
): Promise<number> {
  if (batch.length === 0) return 0
  const locationOf = (sha256: string) => `${store.scheme}:${sha256}`
  const needed = await listNeeded(db, batch.map(locationOf))
  let count = 0
  for (const sha256 of batch) {
    const location = locationOf(sha256)
    if (needed.has(location)) continue
    const isRemoved = await db.transaction(async (tx) => {
      await lockBlob(tx, location)
      // Checked again under the lock: a new row may reference the blob by now.
      if ((await listNeeded(tx, [location])).has(location)) return false
      await store.remove(sha256)
      return true
    })
    if (isRemoved) count += 1
  }
  return count
}
