/**
 * The files of archived events. A file with a manifest is complete: both are flushed under another name, the lines are renamed first, the
 * manifest last, and the folder is flushed. Lines without a manifest are leftovers of a killed writer.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { Readable } from 'node:stream'
import { createGunzip, createGzip } from 'node:zlib'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { isUuid } from '#kernel/ids'
import { failpoint } from './failpoints.ts'

type ArchivePosition = { readonly xid: string; readonly seq: string }

type ArchiveManifest = {
  readonly format: 1
  readonly history_archive_id: string
  readonly workspace_id: string
  /** Relative to the folder of the archive. */
  readonly file: string
  readonly event_count: number
  readonly first: ArchivePosition
  readonly last: ArchivePosition
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

function isPosition(value: unknown): value is ArchivePosition {
  if (typeof value !== 'object' || value === null) return false
  const { xid, seq } = value as Partial<Record<keyof ArchivePosition, unknown>>
  return typeof xid === 'string' && DIGITS.test(xid) && typeof seq === 'string' && DIGITS.test(seq)
}

/** Returns the path of an archive below the folder; every part consists of hex digits and dashes. */
export function archiveFileOf(workspaceId: string, archiveId: string): string {
  return `${workspaceId}/${archiveId}${LINES_SUFFIX}`
}

const LINES_SUFFIX = '.jsonl.gz'
const MANIFEST_SUFFIX = '.manifest.json'

function manifestFileOf(file: string): string {
  return `${file.slice(0, -LINES_SUFFIX.length)}${MANIFEST_SUFFIX}`
}

/** Parses strictly, since a manifest is evidence. A manifest that names another file than `file` is refused. */
function parseManifest(text: string, file: string): Decision<ArchiveManifest> {
  const damaged = (what: string) => refuseDamaged(manifestFileOf(file), what)
  let found: Partial<Record<keyof ArchiveManifest, unknown>> | null
  try {
    found = JSON.parse(text) as typeof found
  } catch {
    return damaged('is not JSON')
  }
  if (typeof found !== 'object' || found === null) return damaged('is not an object')
  const { format, history_archive_id: id, workspace_id: workspace, sha256 } = found
  if (format !== 1) return damaged('has a format that this version does not support')
  if (typeof id !== 'string' || !isUuid(id) || typeof workspace !== 'string' || !isUuid(workspace)) {
    return damaged('does not name its archive')
  }
  const isWhole =
    found.file === file &&
    file === archiveFileOf(workspace, id) &&
    isCount(found.event_count) &&
    isCount(found.content_bytes) &&
    isPosition(found.first) &&
    isPosition(found.last) &&
    typeof sha256 === 'string' &&
    HASH.test(sha256) &&
    isTime(found.ended_before) &&
    isTime(found.written_at)
  // Every field has been checked.
  return isWhole ? accept(found as ArchiveManifest) : damaged('does not match its file')
}

/** An event as stored in its line: the columns of the table; 64-bit numbers within the precision of a double. */
export type ArchivedEvent = {
  readonly event_id: string
  readonly workspace_id: string
  readonly command_id: string | null
  readonly purpose: string
  readonly event_type: string
  readonly payload: Readonly<Record<string, unknown>>
  readonly actor: string
  readonly trace_id: string
  readonly created_at: string
  readonly seq: number
  readonly xid: string
}

const NEWLINE = 0x0a

/** Splits at newlines only; a text may contain other characters that some readers treat as line ends. */
export async function* readArchiveLines(folder: string, file: string): AsyncGenerator<Buffer> {
  const source = createReadStream(join(folder, file))
  const plain = createGunzip()
  source.on('error', (error) => plain.destroy(error))
  source.pipe(plain)
  let rest: Buffer = Buffer.alloc(0)
  try {
    for await (const chunk of plain as AsyncIterable<Buffer>) {
      let data = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk
      for (let end = data.indexOf(NEWLINE); end >= 0; end = data.indexOf(NEWLINE)) {
        yield data.subarray(0, end)
        data = data.subarray(end + 1)
      }
      rest = data
    }
    if (rest.length > 0) yield rest
  } finally {
    source.destroy()
    plain.destroy()
  }
}

export async function* readArchive(folder: string, file: string): AsyncGenerator<ArchivedEvent> {
  for await (const line of readArchiveLines(folder, file)) yield JSON.parse(line.toString()) as ArchivedEvent
}

export type VerifiedArchive = { readonly manifest: ArchiveManifest; readonly events: readonly ArchivedKey[] }
type ArchivedKey = Pick<ArchivedEvent, 'event_id' | 'command_id' | 'workspace_id'>

/** Verifies the whole file: manifest, hash, count, first and last position, and the workspace of every event. */
export async function verifyArchive(folder: string, file: string): Promise<Decision<VerifiedArchive>> {
  try {
    const manifest = parseManifest(await readFile(join(folder, manifestFileOf(file)), 'utf8'), file)
    if (!manifest.ok) return manifest
    return await compare(folder, manifest.value)
  } catch (error) {
    return refuseArchiveFile(error, folder, file)
  }
}

async function compare(folder: string, manifest: ArchiveManifest): Promise<Decision<VerifiedArchive>> {
  const hash = createHash('sha256')
  const events: ArchivedKey[] = []
  let first: ArchivedEvent | undefined
  let last: ArchivedEvent | undefined
  for await (const line of readArchiveLines(folder, manifest.file)) {
    hash.update(line).update('\n')
    last = JSON.parse(line.toString()) as ArchivedEvent
    first ??= last
    const { event_id, command_id, workspace_id } = last
    events.push({ event_id, command_id, workspace_id })
  }
  const isAt = (event: ArchivedEvent | undefined, place: { xid: string; seq: string }) =>
    event?.xid === place.xid && String(event.seq) === place.seq
  const isWhole =
    events.length === manifest.event_count &&
    hash.digest('hex') === manifest.sha256 &&
    isAt(first, manifest.first) &&
    isAt(last, manifest.last) &&
    events.every(({ workspace_id }) => workspace_id === manifest.workspace_id)
  return isWhole ? accept({ manifest, events }) : refuseDamaged(manifest.file, 'does not match its manifest')
}

function refuseDamaged(file: string, what: string): Refusal {
  return refuse('history.file.damaged', `The file ${file} ${what}.`, {
    path: file,
    hint: 'Restore the file from a backup.',
  })
}

/** A missing file and an unreadable one need different fixes. */
export function refuseArchiveFile(error: unknown, folder: string, file: string): Refusal {
  const code = (error as NodeJS.ErrnoException | undefined)?.code
  if (code !== 'ENOENT') return refuseDamaged(file, `cannot be read: ${(error as Error).message}`)
  return refuse('history.file.missing', `The file ${file} or its manifest is not in ${folder}.`, {
    path: file,
    hint: 'Restore it, or set CONCORD_HISTORY_FOLDER to the folder of the archive.',
  })
}

const PART_SUFFIX = '.part'

type ArchiveDraft = Omit<ArchiveManifest, 'format' | 'event_count' | 'sha256' | 'content_bytes'>

export async function writeArchive(
  folder: string,
  draft: ArchiveDraft,
  lines: readonly string[],
): Promise<ArchiveManifest> {
  const linesPath = resolve(folder, draft.file)
  const manifestPath = resolve(folder, manifestFileOf(draft.file))
  const made = await mkdir(dirname(linesPath), { recursive: true, mode: 0o700 })
  try {
    const { sha256, bytes } = await writeLines(`${linesPath}${PART_SUFFIX}`, lines)
    const counts = { event_count: lines.length, sha256, content_bytes: bytes }
    const manifest: ArchiveManifest = { ...draft, format: 1, ...counts }
    await writeFlushed(`${manifestPath}${PART_SUFFIX}`, `${JSON.stringify(manifest, null, 2)}\n`)
    await failpoint('history.lines_written')
    await rename(`${linesPath}${PART_SUFFIX}`, linesPath)
    await failpoint('history.lines_named')
    await rename(`${manifestPath}${PART_SUFFIX}`, manifestPath)
    await flushFolders(dirname(linesPath), made === undefined ? resolve(folder) : dirname(resolve(made)))
    await failpoint('history.file_named')
    return manifest
  } catch (error) {
    // A full disk would stay full until the next run.
    for (const path of [linesPath, manifestPath]) await rm(`${path}${PART_SUFFIX}`, { force: true }).catch(() => {})
    throw error
  }
}

/** The compressor handles every chunk in another thread. */
const LINES_PER_CHUNK = 200

async function writeLines(path: string, lines: readonly string[]): Promise<{ sha256: string; bytes: number }> {
  const hash = createHash('sha256')
  let bytes = 0
  function* chunks() {
    for (let at = 0; at < lines.length; at += LINES_PER_CHUNK) {
      const chunk = Buffer.from(`${lines.slice(at, at + LINES_PER_CHUNK).join('\n')}\n`)
      hash.update(chunk)
      bytes += chunk.length
      yield chunk
    }
  }
  const file = await open(path, 'w', 0o600)
  try {
    // Level 6 shrinks events to about a tenth; higher ones cost more than they save.
    for await (const chunk of Readable.from(chunks()).pipe(createGzip()) as AsyncIterable<Buffer>) {
      await file.writeFile(chunk)
    }
    await file.sync()
  } finally {
    await file.close()
  }
  return { sha256: hash.digest('hex'), bytes }
}

async function writeFlushed(path: string, text: string): Promise<void> {
  const file = await open(path, 'w', 0o600)
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** A new name is durable only when its folder is flushed, and so on up to the first folder that existed before. */
async function flushFolders(from: string, upTo: string): Promise<void> {
  for (let path = from; ; path = dirname(path)) {
    const folder = await open(path, 'r')
    try {
      await folder.sync()
    } finally {
      await folder.close()
    }
    if (path === upTo) return
  }
}

type ArchiveFolder = {
  /** Files that have a manifest. */
  readonly files: readonly string[]
  /** Unfinished and safe to remove: no row is deleted before its file has a manifest and was read back. */
  readonly leftovers: readonly string[]
}

/** Lists complete archives by their manifests, and leftovers. */
export async function listArchiveFolder(folder: string): Promise<ArchiveFolder> {
  const files: string[] = []
  const leftovers: string[] = []
  for (const workspaceId of await namesIn(folder)) {
    if (!isUuid(workspaceId)) continue
    const names = await namesIn(join(folder, workspaceId))
    for (const name of names) {
      const id = name.slice(0, 36)
      // Other files in the folder belong to the operator.
      if (!isUuid(id)) continue
      const rest = name.slice(36)
      if (rest === MANIFEST_SUFFIX) files.push(`${workspaceId}/${id}${LINES_SUFFIX}`)
      else if (rest.endsWith(PART_SUFFIX)) leftovers.push(`${workspaceId}/${name}`)
      else if (rest === LINES_SUFFIX && !names.includes(`${id}${MANIFEST_SUFFIX}`))
        leftovers.push(`${workspaceId}/${name}`)
    }
  }
  return { files: files.toSorted(), leftovers: leftovers.toSorted() }
}

export async function removeLeftovers(folder: string, { leftovers }: Pick<ArchiveFolder, 'leftovers'>): Promise<void> {
  for (const name of leftovers) await rm(join(folder, name), { force: true })
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return []
    throw error
  }
}
