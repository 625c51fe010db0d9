/** Stores blobs as files in one folder. Writes under a temporary name, syncs and renames; verifies the hash before a read. */
import { createHash } from 'node:crypto'
import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import type { NewId } from '#kernel/clock'
import { accept, type Decision } from '#kernel/refusal'
import {
  type BlobContent,
  type BlobEntry,
  type BlobRef,
  BlobRefused,
  type BlobStore,
  chunksOf,
  isSha256,
  Measure,
  type OpenBlob,
  refuseAltered,
  refuseMissingBlob,
  refuseUnavailable,
} from './blob-store.ts'

type DiskStoreOptions = {
  readonly folder: string
  readonly newId: NewId
  readonly contentBytesMax: number
}

const UNFINISHED = 'unfinished'
const CHUNK_BYTES = 1_048_576

export function openDiskStore({ folder, newId, contentBytesMax }: DiskStoreOptions): BlobStore {
  const fileOf = (sha256: string) => join(folder, sha256.slice(0, 2), sha256)

  async function write(content: BlobContent): Promise<BlobRef> {
    await makeFolder(join(folder, UNFINISHED))
    const temporary = join(folder, UNFINISHED, newId())
    const measure = new Measure(contentBytesMax)
    try {
      const handle = await open(temporary, 'wx', 0o600)
      try {
        for await (const chunk of chunksOf(content)) {
          measure.add(chunk)
          await handle.writeFile(chunk)
        }
        await handle.sync()
      } finally {
        await handle.close()
      }
      const ref = measure.ref()
      const file = fileOf(ref.sha256)
      await makeFolder(dirname(file))
      // Replaces an existing file: the bytes are the same, the time is new for the sweep, and an altered file is repaired.
      await rename(temporary, file)
      await syncFolder(dirname(file))
      return ref
    } catch (error) {
      await rm(temporary, { force: true })
      throw error
    }
  }

  return {
    scheme: 'disk',
    async put(content) {
      try {
        return accept(await write(content))
      } catch (error) {
        if (error instanceof BlobRefused) return error.refusal
        // A full disk or a folder without permission. Errors of the content itself belong to the caller.
        if ((error as NodeJS.ErrnoException).syscall !== undefined) return refuseUnavailable('disk', error)
        throw error
      }
    },
    async has(sha256) {
      return (await findStat(fileOf(sha256))) !== undefined
    },
    open: (sha256) => openChecked(fileOf(sha256), sha256),
    async *list(): AsyncGenerator<BlobEntry> {
      for (const shelf of await namesIn(folder)) {
        if (!/^[0-9a-f]{2}$/.test(shelf)) continue
        for (const name of await namesIn(join(folder, shelf))) {
          const found = isSha256(name) ? await findStat(join(folder, shelf, name)) : undefined
          if (found) yield { sha256: name, writtenAt: found.mtime }
        }
      }
    },
    remove: (sha256) => rm(fileOf(sha256), { force: true }),
    async removeUnfinished(before) {
      let count = 0
      for (const name of await namesIn(join(folder, UNFINISHED))) {
        const file = join(folder, UNFINISHED, name)
        const found = await findStat(file)
        if (!found || found.mtime >= before) continue
        await rm(file, { force: true })
        count += 1
      }
      return count
    },
  }
}

/** Hashes the file through the same handle that is read later, so that it cannot be replaced in between. */
async function openChecked(file: string, sha256: string): Promise<Decision<OpenBlob>> {
  let handle: FileHandle
  try {
    handle = await open(file, 'r')
  } catch (error) {
    return isAbsent(error) ? refuseMissingBlob(sha256) : refuseUnavailable('disk', error)
  }
  const found = await hashOf(handle)
  if (found.sha256 !== sha256) {
    await handle.close()
    return refuseAltered(sha256)
  }
  return accept({
    sizeBytes: found.sizeBytes,
    isChecked: true,
    stream: (range) =>
      // The type of `toWeb` is wider than its value.
      Readable.toWeb(
        handle.createReadStream({ start: range?.start ?? 0, ...(range ? { end: range.end } : {}) }),
      ) as ReadableStream<Uint8Array>,
    close: () => handle.close(),
  })
}

async function hashOf(handle: FileHandle): Promise<BlobRef> {
  const hash = createHash('sha256')
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES)
  for (let position = 0; ; ) {
    const { bytesRead } = await handle.read(buffer, 0, CHUNK_BYTES, position)
    if (bytesRead === 0) return { sha256: hash.digest('hex'), sizeBytes: position }
    hash.update(buffer.subarray(0, bytesRead))
    position += bytesRead
  }
}

/** Syncs the parent, so that a new folder survives a power cut. */
async function makeFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true, mode: 0o700 })
  if (first !== undefined) await syncFolder(dirname(first))
}

async function syncFolder(folder: string): Promise<void> {
  // Windows cannot open a folder; its renames are journalled.
  if (process.platform === 'win32') return
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function namesIn(folder: string): Promise<readonly string[]> {
  return readdir(folder).catch((error: unknown) => {
    if (isAbsent(error)) return []
    throw error
  })
}

async function findStat(file: string) {
  return stat(file).catch((error: unknown) => {
    if (isAbsent(error)) return undefined
    throw error
  })
}

function isAbsent(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT'
}
