/**
 * Files in one folder: read, list, compare, write atomically, delete. A path is opened one name at a time, never through a symbolic link.
 * On Linux each step uses the open handle of the parent folder (`/proc/self/fd/n/name`), so that a folder cannot be replaced by a
 * link in between. Elsewhere the path is resolved again after opening and must still be inside.
 */
import { createHash } from 'node:crypto'
import { constants, existsSync } from 'node:fs'
import { type FileHandle, link, lstat, open, readdir, realpath, rename, stat, unlink } from 'node:fs/promises'
import { join, sep } from 'node:path'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { ConnectorFailure } from '../connector.ts'

/** The reserved prefix of unfinished files. */
const TEMPORARY = '.concord-'

const PARTS_MAX = 32
const PATH_CHARS_MAX = 1_024

export function parseFolderPath(path: string): Decision<readonly string[]> {
  const no = (why: string) =>
    refuse('connectors.path.not_allowed', `The path ${quote(path)} ${why}.`, {
      path: 'path',
      hint: 'Write a relative path such as reports/2026-05.csv.',
    })
  if (path.length > PATH_CHARS_MAX) return no('is too long')
  // Backslashes and colons are separators and drives on other systems; control characters are not valid in names.
  if (/[\\:\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(path)) return no('contains a character that is not allowed')
  const parts = path.split('/')
  if (parts.length > PARTS_MAX) return no('is too deep')
  for (const part of parts) {
    if (part === '') return no('is absolute or has an empty segment')
    if (/^\.{1,}$/.test(part.normalize('NFKC').trim())) return no('has a segment that consists of dots')
    if (part.trim() !== part) return no('has a segment that starts or ends with a space')
    if (part.startsWith(TEMPORARY)) return no('uses a name that is reserved for unfinished files')
  }
  return accept(parts)
}

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants

/** An open folder. `at(name)` is the path of a name in it, which cannot lead elsewhere. */
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

/** For systems without handle paths: the opened folder must still be the one at the path, and inside the root. */
async function checkInside(handle: FileHandle, path: string, root: string): Promise<void> {
  const real = await realpath(path)
  const [there, here] = [await stat(real), await handle.stat()]
  const isInside = real === root || real.startsWith(root + sep)
  if (isInside && there.ino === here.ino && there.dev === here.dev) return
  await handle.close()
  throw outside()
}

/** Opens a regular file for reading. Refuses hard links: the other name may be outside the folder. */
async function openFile(folder: Folder, name: string): Promise<FileHandle> {
  // Without O_NONBLOCK, opening a pipe waits for a writer.
  const file = await open(folder.at(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch(translate)
  const found = await file.stat()
  if (found.isFile() && found.nlink === 1) return file
  await file.close()
  throw outside()
}

function outside(): ConnectorFailure {
  return new ConnectorFailure(
    'permission_denied',
    'The path leads out of the folder, or to something that is not a regular file.',
    'no',
  )
}

/** System error texts are not passed on: they contain paths of the machine. */
function translate(error: unknown): never {
  if (error instanceof ConnectorFailure) throw error
  const { code } = error as NodeJS.ErrnoException
  switch (code) {
    case 'ENOENT':
      throw new ConnectorFailure('validation_error', 'There is no such file.', 'no')
    case 'EEXIST':
      throw new ConnectorFailure('validation_error', 'The file already exists.', 'no')
    case 'ELOOP':
    case 'ENOTDIR':
    case 'EISDIR':
    case 'ENXIO':
      throw outside()
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      throw new ConnectorFailure('permission_denied', 'The operating system does not allow it.', 'no')
    default:
      throw new ConnectorFailure(
        'transient_connector_error',
        `The file system failed (${code ?? 'unknown'}).`,
        'unknown',
      )
  }
}

type FileText = { readonly text: string; readonly size_bytes: number; readonly sha256: string }

const ENTRIES_MAX = 1_000
const strictUtf8 = new TextDecoder('utf-8', { fatal: true })

/** Opens the folder of the last segment of the path, and always closes it. */
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

export function readFileText(root: string, path: string, bytesMax: number): Promise<FileText> {
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

/** Reads the whole file up to the limit, and never returns only a part of it. */
async function readWhole(file: FileHandle, bytesMax: number): Promise<Buffer> {
  const { size } = await file.stat()
  if (size > bytesMax) throw new ConnectorFailure('validation_error', `The file has more than ${bytesMax} bytes.`, 'no')
  // One more byte than its size: it may grow while it is read, and the size of some files is meaningless.
  const buffer = Buffer.alloc(size + 1)
  const { bytesRead } = await file.read(buffer, 0, buffer.length, 0)
  if (bytesRead !== size)
    throw new ConnectorFailure('transient_connector_error', 'The file changed while it was read.', 'no')
  return buffer.subarray(0, bytesRead)
}

function decode(bytes: Uint8Array): string {
  try {
    return strictUtf8.decode(bytes)
  } catch {
    throw new ConnectorFailure('validation_error', 'The file is not UTF-8 text.', 'no')
  }
}

export function hashOf(bytes: Uint8Array | string): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** Lists names and sizes of files and folders; skips links and special files. */
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

type WriteText = {
  readonly path: string
  readonly text: string
  /** The hash of the current file; null: there must be none. */
  readonly expected: string | null
  /** Names the unfinished file. It is the same for a repeat, so that no file is left over. */
  readonly by: string
  readonly bytesMax: number
}

/** Writes a temporary file, syncs it and moves it in one step: a reader sees the old file or the new one. */
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
      // A link does not replace an existing file; a rename does.
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
    // A missing file is a success: a repeated undo finds its own work done.
    if (!found) return { path, deleted: false }
    await checkExpected(folder, name, expected, bytesMax)
    await unlink(folder.at(name)).catch(translate)
    await folder.sync()
    return { path, deleted: true }
  })
}

/** The file must be the one that the caller has read, so it is no larger than the limit. */
async function checkExpected(folder: Folder, name: string, expected: string, bytesMax: number): Promise<void> {
  const file = await openFile(folder, name)
  try {
    if (hashOf(await readWhole(file, bytesMax)) !== expected)
      throw new ConnectorFailure('validation_error', 'The file is not the expected one.', 'no')
  } finally {
    await file.close()
  }
}

/**
 * Whether the file holds exactly this text, to look up a write whose answer was lost. A writer that died between the link and the
 * removal of the temporary name left two names for one file; this removes the temporary one.
 */
export async function holdsText(root: string, path: string, text: string, by: string): Promise<boolean> {
  try {
    await within(root, path, (folder) => unlink(folder.at(`${TEMPORARY}${by}`)).catch(() => {}))
    return (await readFileText(root, path, Buffer.byteLength(text))).sha256 === hashOf(text)
  } catch (error) {
    if (error instanceof ConnectorFailure && error.errorClass === 'validation_error') return false
    throw error
  }
}
