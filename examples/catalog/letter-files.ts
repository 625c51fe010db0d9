/** Outgoing letters as files: written atomically, and once per name. */
import { createHash } from 'node:crypto'
import { link, mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

export function checksumOf(text: string): string {
  return `sha256:${createHash('sha256').update(text).digest('hex')}`
}

/** A key may contain any character, but a file name may not. */
export function letterFile(folder: string, key: string): string {
  return join(folder, 'outbox', `${checksumOf(key).slice('sha256:'.length, 'sha256:'.length + 32)}.txt`)
}

/** Returns false when the letter exists; it stays unchanged. The link creates the whole file at once or fails. */
export async function writeOnce(file: string, text: string, draft: string): Promise<boolean> {
  await mkdir(dirname(file), { recursive: true })
  const beside = `${file}.${draft}`
  await writeFile(beside, text, { flush: true })
  try {
    await link(beside, file)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return false
  } finally {
    await rm(beside, { force: true })
  }
}
