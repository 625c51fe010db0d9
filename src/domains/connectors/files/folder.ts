/**
 * A folder that is entered one name at a time, never through a symbolic link. On Linux each step goes through the open
 * handle of the folder before it (`/proc/self/fd/n/name`), so that nobody can swap a folder for a link in between; elsewhere
 * the path is resolved again after opening and must still be inside.
 */
import { createHash } from 'node:crypto'
import { constants, existsSync } from 'node:fs'
import { type FileHandle, link, lstat, open, readdir, realpath, rename, stat, unlink } from 'node:fs/promises'
import { join, sep } from 'node:path'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { ConnectorFailure } from '../connector.ts'

/** What unfinished writes are called; nobody else may use it. */
const TEMPORARY = '.concord-'

const PARTS_MAX = 32
const PATH_CHARS_MAX = 1_024

export function parseFolderPath(path: string): Decision<readonly string[]> {
  const no = (why: string) =>
    refuse('connectors.path.not_allowed', `the path ${quote(path)} ${why}`, {
      path: 'path',
      hint: 'Write a relative path such as reports/2026-05.csv.',
    })
  if (path.length > PATH_CHARS_MAX) return no('is too long')
  // Backslashes and colons are separators and drives elsewhere; control characters are nothing for a name.
  if (/[\\:\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(path)) return no('has a character that no name here has')
  const parts = path.split('/')
  if (parts.length > PARTS_MAX) return no('is too deep')
  for (const part of parts) {
    if (part === '') return no('is absolute or has an empty part')
    if (/^\.{1,}$/.test(part.normalize('NFKC').trim())) return no('has dots for a part')
    if (part.trim() !== part) return no('has a part that begins or ends with a blank')
    if (part.startsWith(TEMPORARY)) return no('has a name that is kept for unfinished files')
  }
  return accept(parts)
}

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants

/** An open folder; `at(name)` is the path of a name in it that cannot lead anywhere else. */
type Folder = { at(name: string): string; sync(): Promise<void>; close(): Promise<void> }

const hasHandlePaths = existsSync('/proc/self/fd')

async function openFolder(root: string, parts: readonly string[]): Promise<Folder> {
  let handle = await open(root, O_RDONLY | O_DIRECTORY).catch(translate)
  let path = await realpath(root)
  const inside = path
  for (const part of parts) {
    const next = await open(stepOf(handle, path, part), O_RDONLY | O_DIRECTORY | O_NOFOLLOW).catch(
      async (error: unknown) => {
        await handle.close()
        return translate(error)
      },
    )
    await handle.close()
    handle = next
    path = join(path, part)
    if (!hasHandlePaths) await checkInside(handle, path, inside)
  }
  const folder = handle
  return { at: (name) => stepOf(folder, path, name), sync: () => folder.sync(), close: () => folder.close() }
}

function stepOf(handle: FileHandle, path: string, name: string): string {
  return hasHandlePaths ? `/proc/self/fd/${handle.fd}/${name}` : join(path, name)
}

/** Only where there are no handle paths: what was opened must still be what the path leads to, inside the folder. */
async function checkInside(handle: FileHandle, path: string, root: string): Promise<void> {
  const real = await realpath(path)
  const [there, here] = [await stat(real), await handle.stat()]
  const isInside = real === root || real.startsWith(root + sep)
  if (isInside && there.ino === here.ino && there.dev === here.dev) return
  await handle.close()
  throw outside()
}

/** Opens a regular file for reading. A second name of a file may belong to somebody else, so hard links are refused. */
async function openFile(folder: Folder, name: string): Promise<FileHandle> {
  // Without O_NONBLOCK the opening of a pipe waits for somebody to write into it.
  const file = await open(folder.at(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch(translate)
  const { nlink } = await file.stat()
  const isPlain = (await file.stat()).isFile() && nlink === 1
  if (isPlain) return file
  await file.close()
  throw outside()
}

function outside(): ConnectorFailure {
  return new ConnectorFailure(
    'permission_denied',
    'this leads out of the folder, or to something that is no file',
    'no',
  )
}

/** The texts of the system name paths of the machine; they are not passed on. */
function translate(error: unknown): never {
  if (error instanceof ConnectorFailure) throw error
  const { code } = error as NodeJS.ErrnoException
  switch (code) {
    case 'ENOENT':
      throw new ConnectorFailure('validation_error', 'there is no such file', 'no')
    case 'EEXIST':
      throw new ConnectorFailure('validation_error', 'there is such a file already', 'no')
    case 'ELOOP':
    case 'ENOTDIR':
    case 'EISDIR':
    case 'ENXIO':
      throw outside()
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      throw new ConnectorFailure('permission_denied', 'the system does not allow it', 'no')
    default:
      throw new ConnectorFailure(
        'transient_connector_error',
        `the file system failed (${code ?? 'unknown'})`,
        'unknown',
      )
  }
}

/** What can be done with files in a folder: read, list, compare, write as a whole or not at all, delete what one has seen. */
export type FileText = { readonly text: string; readonly size_bytes: number; readonly sha256: string }

const ENTRIES_MAX = 1_000
const strictUtf8 = new TextDecoder('utf-8', { fatal: true })

/** Opens the folder that holds the last part of the path, and closes it whatever happens. */
async function within<T>(root: string, path: string, work: (folder: Folder, name: string) => Promise<T>): Promise<T> {
  const parts = parseFolderPath(path)
  if (!parts.ok) throw new ConnectorFailure('permission_denied', parts.reason, 'no')
  const name = parts.value.at(-1) ?? ''
  const folder = await openFolder(root, parts.value.slice(0, -1))
  try {
    return await work(folder, name)
  } finally {
    await folder.close()
  }
}

export function readText(root: string, path: string, bytesMax: number): Promise<FileText> {
  return within(root, path, async (folder, name) => {
    const file = await openFile(folder, name)
    try {
      const bytes = await readWhole(file, bytesMax)
      return { text: decode(bytes), size_bytes: bytes.length, sha256: hashOf(bytes) }
    } finally {
      await file.close()
    }
  })
}

/** All of it, up to the limit; a part is never taken for the whole. */
async function readWhole(file: FileHandle, bytesMax: number): Promise<Buffer> {
  const { size } = await file.stat()
  if (size > bytesMax) throw new ConnectorFailure('validation_error', `the file has more than ${bytesMax} bytes`, 'no')
  // One byte more than it says: it may grow while it is read, and some files have no size that means anything.
  const buffer = Buffer.alloc(size + 1)
  const { bytesRead } = await file.read(buffer, 0, buffer.length, 0)
  if (bytesRead !== size)
    throw new ConnectorFailure('transient_connector_error', 'the file changed while it was read', 'no')
  return buffer.subarray(0, bytesRead)
}

function decode(bytes: Uint8Array): string {
  try {
    return strictUtf8.decode(bytes)
  } catch {
    throw new ConnectorFailure('validation_error', 'the file is not UTF-8 text', 'no')
  }
}

export function hashOf(bytes: Uint8Array | string): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** Names and sizes; links and special files are not told. */
export async function listFolder(root: string, path: string): Promise<JsonObject> {
  const parts = path === '' || path === '.' ? { ok: true as const, value: [] } : parseFolderPath(path)
  if (!parts.ok) throw new ConnectorFailure('permission_denied', parts.reason, 'no')
  const folder = await openFolder(root, parts.value)
  try {
    const entries = await readdir(folder.at('.'), { withFileTypes: true }).catch(translate)
    const shown = entries.filter(
      (entry) => (entry.isFile() || entry.isDirectory()) && !entry.name.startsWith(TEMPORARY),
    )
    const sorted = shown.toSorted((a, b) => (a.name < b.name ? -1 : 1)).slice(0, ENTRIES_MAX)
    const items: JsonObject[] = []
    for (const entry of sorted) {
      const found = await lstat(folder.at(entry.name)).catch(() => undefined)
      if (found)
        items.push({
          name: entry.name,
          kind: entry.isFile() ? 'file' : 'folder',
          size_bytes: entry.isFile() ? found.size : 0,
        })
    }
    return { items, truncated: shown.length > ENTRIES_MAX }
  } finally {
    await folder.close()
  }
}

export type WriteText = {
  readonly path: string
  readonly text: string
  /** Of the file as it is now; null: there must be none. */
  readonly expected: string | null
  /** Names the unfinished file; the same for a repeat, so that nothing is left lying about. */
  readonly by: string
  readonly bytesMax: number
}

/** Written beside its place, synced, and then put there in one step: a reader sees the old file or the new one. */
export function writeText(root: string, { path, text, expected, by, bytesMax }: WriteText): Promise<JsonObject> {
  return within(root, path, async (folder, name) => {
    const [from, to] = [folder.at(`${TEMPORARY}${by}`), folder.at(name)]
    if (expected !== null) await checkExpected(folder, name, expected, bytesMax)
    await unlink(from).catch(() => {})
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
    const file = await open(from, flags, 0o640).catch(translate)
    try {
      await file.writeFile(text, 'utf8')
      await file.sync()
    } finally {
      await file.close()
    }
    try {
      // A link does not replace what is there; a rename does.
      await (expected === null ? link(from, to) : rename(from, to)).catch(translate)
    } finally {
      await unlink(from).catch(() => {})
    }
    await folder.sync()
    return { path, size_bytes: Buffer.byteLength(text), sha256: hashOf(text) }
  })
}

export function deleteFile(root: string, path: string, expected: string, bytesMax: number): Promise<JsonObject> {
  return within(root, path, async (folder, name) => {
    const found = await lstat(folder.at(name)).catch((error: NodeJS.ErrnoException) =>
      error.code === 'ENOENT' ? undefined : translate(error),
    )
    // Gone already is what was asked for: an undo that is repeated finds its own work done.
    if (!found) return { path, deleted: false }
    await checkExpected(folder, name, expected, bytesMax)
    await unlink(folder.at(name)).catch(translate)
    await folder.sync()
    return { path, deleted: true }
  })
}

/** What is replaced or deleted is what the caller has seen, so it is no larger than what could be read. */
async function checkExpected(folder: Folder, name: string, expected: string, bytesMax: number): Promise<void> {
  const file = await openFile(folder, name)
  try {
    if (hashOf(await readWhole(file, bytesMax)) !== expected)
      throw new ConnectorFailure('validation_error', 'the file is another one than expected', 'no')
  } finally {
    await file.close()
  }
}

/**
 * Whether the file holds exactly this text: how a write whose answer was lost is looked up. A writer that died between putting the
 * file in its place and taking its other name away left two names for one file; the other one is ours to take away.
 */
export async function holdsText(root: string, path: string, text: string, by: string): Promise<boolean> {
  try {
    await within(root, path, (folder) => unlink(folder.at(`${TEMPORARY}${by}`)).catch(() => {}))
    return (await readText(root, path, Buffer.byteLength(text))).sha256 === hashOf(text)
  } catch (error) {
    if (error instanceof ConnectorFailure && error.errorClass === 'validation_error') return false
    throw error
  }
}
