/** The folder for tests that kill a process. The system keeps the pages of a killed process, so memory can replace a disk. */
import { existsSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'

const NEEDED_BYTES = 512 * 2 ** 20

export function fastFolder(): string {
  if (!existsSync('/dev/shm')) return tmpdir()
  const { bavail, bsize } = statfsSync('/dev/shm')
  // Containers often have 64 MB.
  return bavail * bsize >= NEEDED_BYTES ? '/dev/shm' : tmpdir()
}
