/** The postmaster of a data directory: what its pid file says, and whether that process is alive. */
import { execFile } from 'node:child_process'
import { readFile, readlink, realpath } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'

const statuses = ['starting', 'stopping', 'ready', 'standby'] as const

/** The contents of `postmaster.pid`. */
export type Postmaster = {
  readonly pid: number
  readonly dataDir: string
  /** Absent in the first moments of a start. */
  readonly port?: number
  readonly status?: (typeof statuses)[number]
}

/** Lines: process number, data directory, start time, port, socket folder, listen address, shared memory, status. */
export function parsePostmaster(text: string): Postmaster | undefined {
  const lines = text.split('\n').map((line) => line.trim())
  const pid = Number(lines[0])
  const dataDir = lines[1]
  // A stand-alone backend writes its number as a negative one.
  if (!Number.isInteger(pid) || pid === 0 || !dataDir) return undefined
  const port = Number(lines[3])
  const status = statuses.find((known) => known === lines[7])
  return { pid: Math.abs(pid), dataDir, ...(port > 0 ? { port } : {}), ...(status ? { status } : {}) }
}

/** Undefined without a file, or with one that is empty or half written. */
export async function findPostmaster(dataDir: string): Promise<Postmaster | undefined> {
  try {
    return parsePostmaster(await readFile(path.join(dataDir, 'postmaster.pid'), 'utf8'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Returns the postmaster of this data directory if it is alive; a reused process number does not count. */
export async function findLivePostmaster(dataDir: string): Promise<Postmaster | undefined> {
  const noted = await findPostmaster(dataDir)
  if (!noted || !(await isAlive(noted.pid))) return undefined
  // A postmaster works in its data directory. Only Linux shows it, and only for processes that we may inspect.
  const worksIn = await readlink(`/proc/${noted.pid}/cwd`).catch(() => undefined)
  if (worksIn !== undefined) return (await sameFolder(worksIn, dataDir)) ? noted : undefined
  const command = await findCommandLine(noted.pid)
  // If nothing can be read, the login decides.
  return command === undefined || /postgres|postmaster/i.test(command) ? noted : undefined
}

export async function sameFolder(one: string, other: string): Promise<boolean> {
  const real = (folder: string) => realpath(folder).catch(() => folder)
  return (await real(one)) === (await real(other))
}

/** A zombie counts as dead, because it holds no resources. */
export async function isAlive(pid: number): Promise<boolean> {
  try {
    process.kill(pid, 0)
  } catch (error) {
    // EPERM means that it exists.
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false
  }
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  // The name in brackets may contain anything, so the state is read after the last bracket.
  return (
    stat
      .slice(stat.lastIndexOf(')') + 1)
      .trimStart()
      .charAt(0) !== 'Z'
  )
}

/** Ends a postmaster whose data directory is gone, unless its process number belongs to another program by now. */
export async function endPostmaster(pid: number): Promise<void> {
  const command = await findCommandLine(pid)
  if (command === undefined || !/postgres|postmaster/i.test(command)) return
  try {
    // An immediate shutdown: nothing can be written any more.
    process.kill(pid, 'SIGQUIT')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
  for (let waitedMs = 0; waitedMs < 10_000 && (await isAlive(pid)); waitedMs += 20) await wait(20)
}

/** The command line, or undefined where it cannot be read. */
export async function findCommandLine(pid: number): Promise<string | undefined> {
  if (process.platform === 'linux') {
    const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
    return line.replaceAll('\0', ' ').trim() || undefined
  }
  if (process.platform === 'win32') return undefined
  const listed = await promisify(execFile)('ps', ['-o', 'command=', '-p', String(pid)]).catch(() => undefined)
  return listed?.stdout.trim() || undefined
}
