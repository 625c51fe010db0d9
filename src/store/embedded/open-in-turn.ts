/** Brings the server of a home up, whatever state it was left in; called only by the one whose turn it is. */
import { setTimeout as wait } from 'node:timers/promises'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { explainConnect } from '../connect-refusal.ts'
import { checkServer, type ServerFacts } from '../durability.ts'
import { adoptServer, findLivePostmaster, type RunningServer } from './adopt.ts'
import { type ClusterState, makeCluster } from './cluster.ts'
import { haltServer } from './halt.ts'
import { removeUnfinished } from './home.ts'
import type { HomePaths } from './home-paths.ts'
import { findLastStart, thisMachine } from './last-start.ts'
import { launchServer } from './launch.ts'
import { tryExclusive } from './locks.ts'
import { serviceUrlOf, withLogin } from './login.ts'
import type { Parts } from './parts.ts'
import { findPostmaster } from './postmaster-file.ts'
import { isAlive } from './process-facts.ts'
import { ensureService } from './service-login.ts'
import type { EmbeddedOptions } from './server.ts'

export type Opened = {
  readonly server: RunningServer
  readonly password: string
  readonly servicePassword: string
  readonly adopted: boolean
  readonly facts: ServerFacts
}

export async function openInTurn(
  parts: Parts,
  found: ClusterState,
  options: EmbeddedOptions,
): Promise<Decision<Opened>> {
  const { paths, binaries, runAs } = parts
  const left = await removeUnfinished(paths)
  if (left.length > 0) options.log?.('removed a data directory that was never finished', { left })
  const password = found.state === 'ours' ? accept(found.password) : await makeCluster(paths, binaries, runAs)
  if (!password.ok) return password
  const up = await adoptOrLaunch(parts, password.value, options)
  if (!up.ok) return up
  const { server, adopted } = up.value
  const entered = await enter(paths, server, password.value, options.unsafeForTests ?? false)
  if (entered.ok) return accept({ server, password: password.value, adopted, ...entered.value })
  // What we started and may not use would stay behind with nobody to stop it.
  if (!adopted) await haltServer(parts)
  return entered
}

/** Long enough for a dead server to be collected by its parent, or for one that is just coming up to write its file. */
const SETTLE_TRIES = 50
const SETTLE_MS = 100

async function adoptOrLaunch(
  parts: Parts,
  password: string,
  options: EmbeddedOptions,
): Promise<Decision<{ readonly server: RunningServer; readonly adopted: boolean }>> {
  const { paths } = parts
  for (let attempt = 1; ; attempt++) {
    const running = await adoptServer(paths, password)
    if (!running.ok) return running
    if (running.value) return accept({ server: running.value, adopted: true })
    if (await isUsedElsewhere(paths)) return usedElsewhere(paths)
    const launched = await launchServer(parts, options)
    if (launched.ok) return accept({ server: launched.value, adopted: false })
    const isSettling = launched.code === 'store.home.busy' && (await isPassingHolder(paths.dataDir))
    if (!isSettling || attempt >= SETTLE_TRIES) return launched
    await wait(SETTLE_MS)
  }
}

/**
 * Postgres refuses because of a pid file, and yet its holder is nobody to stay: killed and not collected yet, or started by a
 * process that was killed a moment ago. A stranger with that number is neither.
 */
async function isPassingHolder(dataDir: string): Promise<boolean> {
  const noted = await findPostmaster(dataDir)
  return !noted || !(await isAlive(noted.pid)) || (await findLivePostmaster(dataDir)) !== undefined
}

async function enter(
  paths: HomePaths,
  { port }: RunningServer,
  password: string,
  unsafeForTests: boolean,
): Promise<Decision<Pick<Opened, 'servicePassword' | 'facts'>>> {
  try {
    const servicePassword = await ensureService(paths, port, password)
    const facts = await withLogin(serviceUrlOf(port, servicePassword), (client) =>
      checkServer({ query: async (text) => (await client.query(text)).rows }, { unsafeForTests }),
    )
    return facts.ok ? accept({ servicePassword, facts: facts.value }) : facts
  } catch (error) {
    return { ...explainConnect(error, `port ${port}`), path: 'CONCORD_HOME' }
  }
}

/**
 * The server was started by another container on the same folder, whose processes we do not see, and its users are still
 * there. Postgres would not see them either, and would start a second server on the same files.
 */
async function isUsedElsewhere(paths: HomePaths): Promise<boolean> {
  const last = await findLastStart(paths.lastStartFile)
  if (last === undefined || last.machine === (await thisMachine())) return false
  const alone = tryExclusive(paths.usersFile)
  alone?.release()
  return alone === undefined
}

function usedElsewhere(paths: HomePaths): Refusal {
  return refuse(
    'store.home.busy',
    `${paths.home} is in use by a process that we cannot see, such as one in another container`,
    {
      hint: 'stop that process, or give this one a CONCORD_HOME of its own',
    },
  )
}
