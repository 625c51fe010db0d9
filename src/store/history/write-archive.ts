/**
 * Writes archived events so that a file with a manifest is complete: both are flushed under another name, the lines are renamed
 * first, the manifest last, and the folder is flushed. Lines without a manifest are leftovers.
 */
import { createHash } from 'node:crypto'
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { Readable } from 'node:stream'
import { createGzip } from 'node:zlib'
import { failpoint } from '../failpoints.ts'
import { type ArchiveManifest, manifestFileOf } from './manifest.ts'

export const PART_SUFFIX = '.part'

export type ArchiveDraft = Omit<ArchiveManifest, 'format' | 'event_count' | 'sha256' | 'content_bytes'>

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
    await pass('history.lines_written')
    await rename(`${linesPath}${PART_SUFFIX}`, linesPath)
    await pass('history.lines_named')
    await rename(`${manifestPath}${PART_SUFFIX}`, manifestPath)
    await flushFolders(dirname(linesPath), made === undefined ? resolve(folder) : dirname(resolve(made)))
    await pass('history.file_named')
    return manifest
  } catch (error) {
    // A full disk would stay full until the next run.
    for (const path of [linesPath, manifestPath]) await rm(`${path}${PART_SUFFIX}`, { force: true }).catch(() => {})
    throw error
  }
}

async function pass(name: Parameters<typeof failpoint>[0]): Promise<void> {
  await failpoint(name)
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
