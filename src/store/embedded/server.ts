/**
 * Concord's own Postgres in `<home>/postgres`: made at the first start, adopted when it is still running, shared by every
 * process that opens the home, and stopped by the last of them.
 *
 * The rule of stopping: whoever opens the home holds the users lock until `stop()` or death. `stop()` gives up the lock and
 * then halts the server only if nobody else holds it. A process that dies without `stop()` leaves the server running; the
 * next one adopts it.
 */
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { findBinaries } from './binaries.ts'
import { inspectCluster } from './cluster.ts'
import { haltServer } from './halt.ts'
import { prepareHome } from './home.ts'
import { explainHomeFault } from './home-fault.ts'
import { type HomePaths, homePaths } from './home-paths.ts'
import { type HeldLock, takeTurn, tryExclusive, tryShared } from './locks.ts'
import { serviceUrlOf, superuserUrlOf } from './login.ts'
import { type Opened, openInTurn } from './open-in-turn.ts'
import type { Parts } from './parts.ts'
import { addPassage } from './passage.ts'
import { findRunAs } from './run-as.ts'
import { boundLog } from './server-log.ts'

export type EmbeddedOptions = {
  readonly home: string
  /** A port of one's own choice; without it a free one is chosen once and remembered. A running server keeps its port. */
  readonly port?: number
  /** Under root: the account that a new data directory is made for. An existing one stays with its owner. */
  readonly runAs?: string
  /** No flushes to disk: for test servers whose data nobody will miss. */
  readonly unsafeForTests?: boolean
  readonly log?: (message: string, facts: Readonly<Record<string, unknown>>) => void
}

export type EmbeddedPostgres = {
  /** The service's login in its database `concord`; carries the password. */
  readonly url: string
  /** The superuser in the database `postgres`, from which databases are made and dropped. */
  readonly superuserUrl: string
  readonly dataDir: string
  readonly logFile: string
  readonly port: number
  readonly pid: number
  /** It was already running. */
  readonly adopted: boolean
  /** `server_version_num`: 180004 is 18.4. */
  readonly version: number
  /** Says whether the server was halted, or left to the others who use it. */
  stop(): Promise<Decision<Stopped>>
}

type Stopped = 'halted' | 'left_to_others'

/** Longer than an initdb on a slow disk with another one ahead in the queue. */
const TURN_TIMEOUT_MS = 120_000
const LOG_CHECK_MS = 60_000

export async function openEmbeddedPostgres(options: EmbeddedOptions): Promise<Decision<EmbeddedPostgres>> {
  const paths = homePaths(options.home)
  const ready = await prepareHome(paths)
  if (!ready.ok) return ready
  const binaries = await findBinaries()
  if (!binaries.ok) return binaries
  let turn: HeldLock | undefined
  try {
    turn = await takeTurn(paths.turnFile, TURN_TIMEOUT_MS)
    if (!turn) return busy(paths)
    const cluster = await inspectCluster(paths)
    if (!cluster.ok) return cluster
    const runAs = await findRunAs(paths.dataDir, options.runAs)
    if (!runAs.ok) return runAs
    const passing = await addPassage(runAs.value, [paths.home, binaries.value.postgres])
    const parts = { paths, binaries: binaries.value, runAs: passing }
    const opened = await openInTurn(parts, cluster.value, options)
    if (!opened.ok) return opened
    // Nobody holds it exclusively out of turn, and it is our turn.
    const use = tryShared(paths.usersFile)
    if (!use) return busy(paths)
    const { adopted, server } = opened.value
    options.log?.(adopted ? 'adopted the running Postgres' : 'started Postgres', { ...server, dataDir: paths.dataDir })
    return accept(asHandle(parts, opened.value, use))
  } catch (error) {
    const refusal = await explainHomeFault(paths.home, error)
    if (refusal) return refusal
    throw error
  } finally {
    turn?.release()
  }
}

function busy(paths: HomePaths): Refusal {
  const long = `for ${TURN_TIMEOUT_MS / 1000} s`
  return refuse(
    'store.home.busy',
    `another process has been starting or stopping the server in ${paths.home} ${long}`,
    {
      hint: `see ${paths.logFile}, and end the process that hangs`,
    },
  )
}

function asHandle(parts: Parts, opened: Opened, use: HeldLock): EmbeddedPostgres {
  const { paths } = parts
  const { server, password, servicePassword, adopted, facts } = opened
  // Best effort: a log that cannot be shortened is no reason to disturb the work.
  const logCheck = setInterval(() => void boundLog(paths.logFile).catch(() => {}), LOG_CHECK_MS).unref()
  let stopped: Promise<Decision<Stopped>> | undefined
  return {
    url: serviceUrlOf(server.port, servicePassword),
    superuserUrl: superuserUrlOf(server.port, password),
    dataDir: paths.dataDir,
    logFile: paths.logFile,
    ...server,
    adopted,
    version: facts.versionNum,
    stop() {
      clearInterval(logCheck)
      stopped ??= leave(parts, use)
      return stopped
    },
  }
}

async function leave(parts: Parts, use: HeldLock): Promise<Decision<Stopped>> {
  const turn = await takeTurn(parts.paths.turnFile, TURN_TIMEOUT_MS)
  use.release()
  if (!turn) return busy(parts.paths)
  // Users come and go only in their turn, and this is ours: the answer stays true until it is over.
  const last = tryExclusive(parts.paths.usersFile)
  try {
    if (!last) return accept('left_to_others')
    const halted = await haltServer(parts)
    return halted.ok ? accept('halted') : halted
  } finally {
    last?.release()
    turn.release()
  }
}
