/** The log file of the embedded server: bounded in size, and the place where Postgres says why it did not start. */
import { open, rename, stat, truncate, writeFile } from 'node:fs/promises'

/** 16 MB: about 100,000 lines, some hours of a server that complains about every statement. */
const LOG_BOUND_BYTES = 16 * 1024 * 1024
/** What is kept of a log that grew past the bound. */
const LOG_KEPT_BYTES = 1024 * 1024

async function sizeOf(file: string): Promise<number> {
  return (await stat(file).catch(() => undefined))?.size ?? 0
}

async function readFrom(file: string, offset: number, length: number): Promise<string> {
  const handle = await open(file, 'r')
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, offset)
    return buffer.subarray(0, bytesRead).toString('utf8')
  } finally {
    await handle.close()
  }
}

/** The last lines written after `fromByte`, so that an old failure is not taken for this one. */
export async function lastLines(file: string, fromByte: number, count = 8): Promise<string[]> {
  const size = await sizeOf(file)
  const start = Math.max(fromByte, size - 64 * 1024)
  if (size <= start) return []
  const text = await readFrom(file, start, size - start)
  return text.split('\n').filter(Boolean).slice(-count)
}

export { sizeOf as logSize }

/**
 * Empties a log that passed the bound, keeping its end as `<file>.1`. The server appends to the open file, so it goes on
 * at the new end without being told.
 */
export async function boundLog(
  file: string,
  boundBytes = LOG_BOUND_BYTES,
  keptBytes = LOG_KEPT_BYTES,
): Promise<boolean> {
  const size = await sizeOf(file)
  if (size <= boundBytes) return false
  const kept = await readFrom(file, Math.max(0, size - keptBytes), Math.min(size, keptBytes))
  await writeFile(`${file}.1.new`, kept, { mode: 0o600 })
  await rename(`${file}.1.new`, `${file}.1`)
  await truncate(file, 0)
  return true
}
