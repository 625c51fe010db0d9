/** Reads `postmaster.pid`, in which a running Postgres says who it is; this program never writes or removes it. */
import { readFile } from 'node:fs/promises'
import path from 'node:path'

export type Postmaster = {
  readonly pid: number
  readonly dataDir: string
  /** Absent in the first moments of a start. */
  readonly port?: number
  readonly status?: 'starting' | 'stopping' | 'ready' | 'standby'
}

const statuses = ['starting', 'stopping', 'ready', 'standby'] as const

/** Lines: process number, data directory, start time, port, socket folder, listen address, shared memory, status. */
export function parsePostmaster(text: string): Postmaster | undefined {
  const lines = text.split('\n').map((line) => line.trim())
  const pid = Number(lines[0])
  const dataDir = lines[1]
  // A stand-alone backend notes its number as a negative one.
  if (!Number.isInteger(pid) || pid === 0 || !dataDir) return undefined
  const port = Number(lines[3])
  const status = statuses.find((known) => known === lines[7])
  return { pid: Math.abs(pid), dataDir, ...(port > 0 ? { port } : {}), ...(status ? { status } : {}) }
}

/** Undefined when there is no file or it says nothing (zero length, half written). */
export async function findPostmaster(dataDir: string): Promise<Postmaster | undefined> {
  try {
    return parsePostmaster(await readFile(path.join(dataDir, 'postmaster.pid'), 'utf8'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
