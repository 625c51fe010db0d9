/**
 * Concord's own Postgres in `<home>/postgres`: created at the first start, attached to when it is still running, shared by
 * every process that opens the home, and stopped by the last of them.
 *
 * Every process that opens the home holds the users lock until `stop()` or its death. `stop()` releases the lock and stops
 * the server only if no other process holds it. A process that dies without `stop()` leaves the server running; the next
 * one attaches to it.
 */
import { stat } from 'node:fs/promises'
import path from 'node:path'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { inspectCluster, serviceUrlOf, superuserUrlOf } from './cluster.ts'
import { explainHomeFault, type HomePaths, homePaths, prepareHome } from './home.ts'
import { type HeldLock, lockStart, tryExclusive, tryShared } from './locks.ts'
import { endPostmaster } from './postmaster.ts'
import { addCapability, findBinaries, findRunAs, type Parts } from './programs.ts'
import { type StartedPostgres, startPostgres, type ServerOptions, stopPostgres } from './start-server.ts'

export type EmbeddedOptions = ServerOptions & {
  readonly home: string
  /** Under root: the account for a new data directory. An existing one stays with its owner. */
  readonly runAs?: string
  /** The data directory must be there already: a restart never replaces a deleted one with an empty one. */
  readonly mustExist?: boolean
}

export type EmbeddedPostgres = {
  /** The service's login in its database `concord`; carries the password. */
  readonly url: string
  /** The superuser in the database `postgres`, from which databases are created and dropped. */
  readonly superuserUrl: string
  readonly dataDir: string
  readonly logFile: string
  readonly port: number
  readonly pid: number
  /** It was already running. */
  readonly isAttached: boolean
  /** `server_version_num`: 180004 is 18.4. */
  readonly version: number
  /** Returns whether the server was stopped, or left to other processes that use it. */
  stop(): Promise<Decision<Stopped>>
}

type Stopped = 'stopped' | 'left_to_others'

/** Longer than two initdb in a row on a slow disk. */
const LOCK_TIMEOUT_MS = 120_000

export async function openEmbeddedPostgres(options: EmbeddedOptions): Promise<Decision<EmbeddedPostgres>> {
  const paths = homePaths(options.home)
  if (options.mustExist && !(await hasCluster(options.home))) return homeGone(options.home)
  const ready = await prepareHome(paths)
  if (!ready.ok) return ready
  const binaries = await findBinaries()
  if (!binaries.ok) return binaries
  let lock: HeldLock | undefined
  try {
    lock = await lockStart(paths.startFile, LOCK_TIMEOUT_MS)
    if (!lock) return busy(paths)
    const cluster = await inspectCluster(paths)
    if (!cluster.ok) return cluster
    if (options.mustExist && cluster.value === undefined) return homeGone(options.home)
    const runAs = await findRunAs(paths.dataDir, options.runAs)
    if (!runAs.ok) return runAs
    const account = await addCapability(runAs.value, [paths.home, binaries.value.postgres])
    const parts = { paths, binaries: binaries.value, runAs: account }
    const opened = await startPostgres(parts, cluster.value, options)
    if (!opened.ok) return opened
    // It is held exclusively only under the start lock, which we hold.
    const use = tryShared(paths.usersFile)
    if (!use) return busy(paths)
    const { isAttached, server } = opened.value
    options.log?.(isAttached ? 'attached to the running Postgres' : 'started Postgres', {
      ...server,
      dataDir: paths.dataDir,
    })
    return accept(asHandle(parts, opened.value, use))
  } catch (error) {
    const refusal = await explainHomeFault(paths.home, error)
    if (refusal) return refusal
    throw error
  } finally {
    lock?.release()
  }
}

function busy(paths: HomePaths): Refusal {
  const long = `for ${LOCK_TIMEOUT_MS / 1000} s`
  const reason = `Another process has been starting or stopping the server in ${paths.home} ${long}.`
  return refuse('store.home.busy', reason, { hint: `See ${paths.logFile}, and end the process that hangs.` })
}

/** True if the home still has its data directory. Errors other than a missing file do not count: the disk may come back. */
export async function hasCluster(home: string): Promise<boolean> {
  const found = await stat(path.join(homePaths(home).dataDir, 'PG_VERSION')).catch(
    (error: NodeJS.ErrnoException) => error,
  )
  return !(found instanceof Error) || (found.code !== 'ENOENT' && found.code !== 'ENOTDIR')
}

export function homeGone(home: string): Refusal {
  const reason = `The data folder ${home} was deleted or replaced while Concord was running.`
  return refuse('store.home.gone', reason, { path: 'CONCORD_HOME' })
}

function asHandle(parts: Parts, opened: StartedPostgres, use: HeldLock): EmbeddedPostgres {
  const { paths } = parts
  const { server, password, servicePassword, isAttached, version } = opened
  let stopped: Promise<Decision<Stopped>> | undefined
  return {
    url: serviceUrlOf(server.port, servicePassword),
    superuserUrl: superuserUrlOf(server.port, password),
    dataDir: paths.dataDir,
    logFile: paths.logFile,
    ...server,
    isAttached,
    version,
    stop() {
      stopped ??= leave(parts, use, server.pid)
      return stopped
    },
  }
}

async function leave(parts: Parts, use: HeldLock, pid: number): Promise<Decision<Stopped>> {
  if (!(await hasCluster(parts.paths.home))) {
    // The lock files are gone with the folder, and so is everything that a slower stop would save.
    use.release()
    await endPostmaster(pid)
    return accept('stopped')
  }
  const lock = await lockStart(parts.paths.startFile, LOCK_TIMEOUT_MS)
  use.release()
  if (!lock) return busy(parts.paths)
  // The users change only under the start lock, which we hold.
  const last = tryExclusive(parts.paths.usersFile)
  try {
    if (!last) return accept('left_to_others')
    const stopped = await stopPostgres(parts)
    return stopped.ok ? accept('stopped') : stopped
  } finally {
    last?.release()
    lock.release()
  }
}
