/** Blobs as files of one folder: written under another name, synced, renamed into place, and hashed before a byte is handed out. */
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
    const beside = join(folder, UNFINISHED, newId())
    const measure = new Measure(contentBytesMax)
    try {
      const handle = await open(beside, 'wx', 0o600)
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
      // Over one that is there already: the same bytes, a fresh time for the sweep, and an altered file is healed.
      await rename(beside, file)
      await syncFolder(dirname(file))
      return ref
    } catch (error) {
      await rm(beside, { force: true })
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
        // A full disk, a folder without rights: said as such. What the content itself throws is its writer's.
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

/** The whole file is hashed through the handle that will be read from, so that nobody can exchange it in between. */
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
      // Node's own stream of bytes; its type only says less than it is.
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

/** A new folder lasts when the one above it knows of it. */
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
