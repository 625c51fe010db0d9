/** Reads archived events, line by line or completely against the manifest. Reports every mismatch. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createGunzip } from 'node:zlib'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type ArchiveManifest, manifestFileOf, parseManifest } from './manifest.ts'

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
export type ArchivedKey = Pick<ArchivedEvent, 'event_id' | 'command_id' | 'workspace_id'>

/** Verifies the whole file: manifest, hash, count, first and last position, and the workspace of every event. */
export async function verifyArchive(folder: string, file: string): Promise<Decision<VerifiedArchive>> {
  try {
    const manifest = parseManifest(await readFile(join(folder, manifestFileOf(file)), 'utf8'), file)
    if (!manifest.ok) return manifest
    return await compare(folder, manifest.value)
  } catch (error) {
    return refuseFile(error, folder, file)
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
  return isWhole ? accept({ manifest, events }) : damaged(manifest.file, 'is not what its manifest says')
}

function damaged(file: string, what: string) {
  return refuse('history.file.damaged', `${file} ${what}`, { path: file, hint: 'bring the file back from a copy' })
}

/** A missing file and an unreadable one need different fixes. */
export function refuseFile(error: unknown, folder: string, file: string): ReturnType<typeof refuse> {
  const code = (error as NodeJS.ErrnoException | undefined)?.code
  if (code !== 'ENOENT') return damaged(file, `cannot be read: ${(error as Error).message}`)
  return refuse('history.file.missing', `${file} or its manifest is not in ${folder}`, {
    path: file,
    hint: 'bring it back, or set CONCORD_HISTORY_FOLDER to the folder of the archive',
  })
}
