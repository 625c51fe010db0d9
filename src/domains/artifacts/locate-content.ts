/** From content to a location and back: short texts in the row, everything else in the first store; read from whichever has it. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import { failpoint } from '#store'
import type { StoredArtifact } from './artifact-row.ts'
import { type BlobStore, type OpenBlob, refuseAltered, sha256Of } from './blob-store.ts'
import type { CheckedDraft } from './check-draft.ts'
import { streamOf } from './checked-stream.ts'
import type { ArtifactDeps } from './deps.ts'

/** Longer than any note, shorter than what would make reading rows slow: Postgres moves larger values out of line anyway. */
const INLINE_BYTES_MAX = 4_096

export type Located = Pick<StoredArtifact, 'location' | 'checksum' | 'size_bytes'>

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

export type BlobPlace = { readonly store: BlobStore; readonly sha256: string }

/** Undefined: the content is in the row, or gone. */
export function findPlace({ stores }: Pick<ArtifactDeps, 'stores'>, location: string): BlobPlace | undefined {
  const [scheme, sha256 = ''] = location.split(':')
  const store = stores.find((each) => each.scheme === scheme)
  return store && { store, sha256 }
}

export function removedLocation({ checksum }: Pick<StoredArtifact, 'checksum'>): string {
  return `removed:${checksum.slice('sha256:'.length)}`
}

/** What its checksum says, or a refusal. */
export async function openContent(
  deps: Pick<ArtifactDeps, 'stores'>,
  { location, checksum }: Pick<StoredArtifact, 'location' | 'checksum'>,
): Promise<Decision<OpenBlob>> {
  const sha256 = checksum.slice('sha256:'.length)
  if (location.startsWith('removed:'))
    return refuse(
      'artifacts.content.removed',
      'the content of this artifact was removed: its time was over, or what it was about has been forgotten',
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
    `the content lies in the ${location.split(':')[0]} store, which is not set up here`,
    {
      hint: 'Set CONCORD_S3_URL and its sisters as they were when it was written.',
    },
  )
}

/** For content that a handler works with: as a whole, as text. */
export async function readText(
  deps: Pick<ArtifactDeps, 'stores'>,
  artifact: Pick<StoredArtifact, 'location' | 'checksum'>,
): Promise<Decision<string>> {
  const opened = await openContent(deps, artifact)
  return opened.ok ? accept(await new Response(opened.value.stream()).text()) : opened
}
