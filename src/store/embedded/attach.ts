/**
 * Attaches to a server that is still running: a postmaster outlives the process that started it. It is ours only if its pid
 * file is in our data directory, it is alive and works in that directory, our password opens it, and it reports that directory.
 */
import { readFile, readlink, realpath } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { explainConnect } from '../check-server.ts'
import type { HomePaths } from './home.ts'
import { askDataDir, superuserUrlOf } from './login.ts'
import { findCommandLine, isAlive } from './port.ts'

/** Crash recovery of a large WAL comes before `ready`. */
const READY_TIMEOUT_MS = 60_000
/** A server listens before it calls itself ready. */
const SILENT_TIMEOUT_MS = 5_000
const POLL_MS = 25

export type RunningServer = { readonly pid: number; readonly port: number }

/** The postmaster of this data directory if it is alive; a reused process number does not count. */
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

/** Undefined if nothing runs there; Postgres itself decides whether it may start. */
export async function attachServer(paths: HomePaths, password: string): Promise<Decision<RunningServer | undefined>> {
  const since = performance.now()
  for (;;) {
    const live = await findLivePostmaster(paths.dataDir)
    if (!live) return accept(undefined)
    // A server that is starting or stopping is waited for.
    const answer = live.status === 'ready' ? await confirm(paths, password, live) : stillWaiting(paths, live)
    if (answer.ok || answer.code === 'store.home.foreign_server') return answer
    const waitedMs = performance.now() - since
    // Nothing listens on that port: Postgres decides whether that process is a server.
    if (answer.facts?.['code'] === 'ECONNREFUSED' && waitedMs > SILENT_TIMEOUT_MS) return accept(undefined)
    if (waitedMs > READY_TIMEOUT_MS) return answer
    await wait(POLL_MS)
  }
}

function stillWaiting(paths: HomePaths, { pid, status = 'starting' }: Postmaster): Refusal {
  const state = `has been ${status} for ${READY_TIMEOUT_MS / 1000} s`
  return refuse('store.home.busy', `the server in ${paths.dataDir} (process ${pid}) ${state}`, {
    hint: `Wait for it, or see ${paths.logFile}.`,
    facts: { pid },
  })
}

async function confirm(
  paths: HomePaths,
  password: string,
  { pid, port = 0 }: Postmaster,
): Promise<Decision<RunningServer>> {
  const notOurs = (why: string) =>
    refuse('store.home.foreign_server', `process ${pid} runs a server in ${paths.dataDir} that is not ours: ${why}`, {
      hint: `Stop it (kill -INT ${pid}), or set CONCORD_HOME to another folder.`,
      facts: { pid, port },
    })
  try {
    const served = await askDataDir(superuserUrlOf(port, password))
    return (await sameFolder(served, paths.dataDir)) ? accept({ pid, port }) : notOurs(`it serves ${served}`)
  } catch (error) {
    const refusal = explainConnect(error, paths.dataDir)
    return refusal.code === 'store.server.login_refused'
      ? notOurs(refusal.reason)
      : { ...refusal, path: 'CONCORD_HOME' }
  }
}

async function sameFolder(one: string, other: string): Promise<boolean> {
  const real = (folder: string) => realpath(folder).catch(() => folder)
  return (await real(one)) === (await real(other))
}

type Postmaster = {
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
