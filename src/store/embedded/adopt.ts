/**
 * A postmaster outlives the process that started it, so the next one takes it over. It is ours only if all of this holds:
 * its pid file lies in our data directory, it is alive and works in that directory, our password opens it, and it says
 * itself that it serves that directory.
 */
import { readlink, realpath } from 'node:fs/promises'
import { setTimeout as wait } from 'node:timers/promises'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { explainConnect } from '../connect-refusal.ts'
import type { HomePaths } from './home-paths.ts'
import { askDataDir, superuserUrlOf } from './login.ts'
import { findPostmaster, type Postmaster } from './postmaster-file.ts'
import { findCommandLine, isAlive } from './process-facts.ts'

/** Crash recovery of a large WAL comes before `ready`; longer than this is for a person to look at. */
const READY_TIMEOUT_MS = 60_000
/** A server listens before it calls itself ready. */
const SILENT_TIMEOUT_MS = 5_000
const POLL_MS = 25

export type RunningServer = { readonly pid: number; readonly port: number }

/** The postmaster of this data directory if it is alive and really is one; a reused process number is not. */
export async function findLivePostmaster(dataDir: string): Promise<Postmaster | undefined> {
  const noted = await findPostmaster(dataDir)
  if (!noted || !(await isAlive(noted.pid))) return undefined
  // A postmaster works inside its data directory. Only Linux tells, and only about processes that are ours to look into.
  const worksIn = await readlink(`/proc/${noted.pid}/cwd`).catch(() => undefined)
  if (worksIn !== undefined) return (await sameFolder(worksIn, dataDir)) ? noted : undefined
  const command = await findCommandLine(noted.pid)
  // Where nothing can be read, the login decides.
  return command === undefined || /postgres|postmaster/i.test(command) ? noted : undefined
}

/** Undefined means that nothing is running there, and Postgres itself has to say whether it may start. */
export async function adoptServer(paths: HomePaths, password: string): Promise<Decision<RunningServer | undefined>> {
  const since = performance.now()
  for (;;) {
    const live = await findLivePostmaster(paths.dataDir)
    if (!live) return accept(undefined)
    // A server that starts, stops or is just being killed decides by itself what comes next.
    const answer = live.status === 'ready' ? await confirm(paths, password, live) : stillWaiting(paths, live)
    if (answer.ok || answer.code === 'store.home.foreign_server') return answer
    const waitedMs = performance.now() - since
    // Nothing listens where the file says: whether that process is a server at all, Postgres will tell.
    if (answer.facts?.['code'] === 'ECONNREFUSED' && waitedMs > SILENT_TIMEOUT_MS) return accept(undefined)
    if (waitedMs > READY_TIMEOUT_MS) return answer
    await wait(POLL_MS)
  }
}

function stillWaiting(paths: HomePaths, { pid, status = 'starting' }: Postmaster): Refusal {
  const state = `has been ${status} for ${READY_TIMEOUT_MS / 1000} s`
  return refuse('store.home.busy', `the server in ${paths.dataDir} (process ${pid}) ${state}`, {
    hint: `wait for it, or see ${paths.logFile}`,
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
      hint: `stop it (kill -INT ${pid}), or set CONCORD_HOME to another folder`,
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
