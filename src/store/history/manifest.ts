/** The manifest beside a file of archived events: its contents and its hash. Parsed strictly, since it is evidence. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import { isUuid } from '#kernel/ids'

type ArchivePlace = { readonly xid: string; readonly seq: string }

export type ArchiveManifest = {
  readonly format: 1
  readonly history_archive_id: string
  readonly workspace_id: string
  /** Relative to the folder of the archive. */
  readonly file: string
  readonly event_count: number
  readonly first: ArchivePlace
  readonly last: ArchivePlace
  /** SHA-256 of the lines before compression: 64 hex digits. */
  readonly sha256: string
  readonly content_bytes: number
  /** Everything in the file had ended before this time. */
  readonly ended_before: string
  readonly written_at: string
}

const DIGITS = /^(0|[1-9][0-9]{0,19})$/
const HASH = /^[0-9a-f]{64}$/

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 1
const isTime = (value: unknown) => typeof value === 'string' && !Number.isNaN(Date.parse(value))

function isPlace(value: unknown): value is ArchivePlace {
  if (typeof value !== 'object' || value === null) return false
  const { xid, seq } = value as Partial<Record<keyof ArchivePlace, unknown>>
  return typeof xid === 'string' && DIGITS.test(xid) && typeof seq === 'string' && DIGITS.test(seq)
}

/** Returns the path of an archive below the folder; every part consists of hex digits and dashes. */
export function archiveFileOf(workspaceId: string, archiveId: string): string {
  return `${workspaceId}/${archiveId}${LINES_SUFFIX}`
}

export const LINES_SUFFIX = '.jsonl.gz'
export const MANIFEST_SUFFIX = '.manifest.json'

export function manifestFileOf(file: string): string {
  return `${file.slice(0, -LINES_SUFFIX.length)}${MANIFEST_SUFFIX}`
}

/** `file` is where it was found: a manifest that names another file is refused. */
export function parseManifest(text: string, file: string): Decision<ArchiveManifest> {
  const damaged = (what: string) =>
    refuse('history.file.damaged', `${manifestFileOf(file)} ${what}`, {
      path: manifestFileOf(file),
      hint: 'bring the file back from a copy',
    })
  let found: Partial<Record<keyof ArchiveManifest, unknown>> | null
  try {
    found = JSON.parse(text) as typeof found
  } catch {
    return damaged('is not JSON')
  }
  if (typeof found !== 'object' || found === null) return damaged('is not an object')
  const { format, history_archive_id: id, workspace_id: workspace, sha256 } = found
  if (format !== 1) return damaged('has a format that this version does not know')
  if (typeof id !== 'string' || !isUuid(id) || typeof workspace !== 'string' || !isUuid(workspace)) {
    return damaged('does not say which archive it is')
  }
  const isWhole =
    found.file === file &&
    file === archiveFileOf(workspace, id) &&
    isCount(found.event_count) &&
    isCount(found.content_bytes) &&
    isPlace(found.first) &&
    isPlace(found.last) &&
    typeof sha256 === 'string' &&
    HASH.test(sha256) &&
    isTime(found.ended_before) &&
    isTime(found.written_at)
  // Every field has been checked.
  return isWhole ? accept(found as ArchiveManifest) : damaged('does not fit its file')
}
