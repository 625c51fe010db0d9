/** What servers and workers share: project, telemetry, database, schema, and the governed path. */
import { openSignedPost, webhookChannel } from '#domains/approvals'
import { accept, type Decision } from '#kernel/refusal'
import { type Db, explainConnect, MAKE_ROOM, migrateUp, openDb, readConnectionRoom, sayCrowded } from '#store'
import type { Closers } from './lifecycle.ts'
import type { Config, Environment } from './config.ts'
import type { Log } from './log.ts'
import { openArtifacts } from './open-artifacts.ts'
import { openStore } from './open-store.ts'
import { type OpenedWork, openWork, type WorkOptions } from './open-work.ts'
import { loadProject, type Project } from './project.ts'
import { openTelemetry, type Telemetry } from './telemetry.ts'
import { version } from './version.ts'
import type { SystemDeps } from './system-deps.ts'

export type StartOptions = {
  readonly config: Config
  readonly environment: Environment
  /** Where the project lies, with its `concord.config.ts`. */
  readonly folder: string
  readonly deps?: SystemDeps
  readonly log?: Log
  readonly onProgress?: (step: string) => void
  /** False: takes requests and leaves every turn to workers. */
  readonly works?: boolean
}

export type Base = {
  readonly db: Db
  readonly url: string
  /** Where the database is, without its password. */
  readonly database: string
  readonly schemaVersion: number
  readonly project: Project
  readonly telemetry: Telemetry
  readonly work: OpenedWork
}

/** The role that the service's connections act as; see docs/decisions/0008-two-database-roles.md. */
const ENGINE_ROLE = 'concord_engine'
/** With none of its own a process would take turns that it cannot carry out. */
const POOL_MIN = 2

function workOptionsOf(config: Config, { now }: SystemDeps): Omit<WorkOptions, 'artifacts'> {
  const { notifyUrl: url, notifySecret = '', queues, environmentName, engine } = config
  const receiver = url === undefined ? undefined : { url, secret: Buffer.from(notifySecret), fetch, now }
  return {
    defaultWorkspace: config.workspace ?? config.defaultWorkspace,
    queues,
    environmentName,
    engine,
    schedulesMax: config.schedulesMax,
    channels: receiver ? [webhookChannel(receiver)] : [],
    alertChannels: receiver ? [{ name: 'webhook', deliver: openSignedPost(receiver) }] : [],
  }
}

export async function openBase(
  options: StartOptions,
  deps: SystemDeps,
  log: Log,
  closers: Closers,
): Promise<Decision<Base>> {
  const { config, environment, folder, onProgress = () => {}, works = true } = options
  const project = await loadProject(folder)
  if (!project.ok) return project
  const telemetry = await openTelemetry(environment, version)
  closers.add(() => telemetry.close())

  onProgress(config.databaseUrl === undefined ? 'starting Postgres' : 'connecting to Postgres')
  const store = await openStore(config, log)
  if (!store.ok) return store
  closers.add(() => store.value.close())
  const { url, label: database } = store.value

  onProgress('bringing the schema up to date')
  const migrated = await migrateUp(url)
  if (!migrated.ok) return migrated
  const db = openDb({
    url,
    role: ENGINE_ROLE,
    poolMax: config.poolMax,
    poolMin: POOL_MIN,
    onConnectionError: (error) => log.warn({ err: error }, 'lost a database connection'),
  })
  closers.add(() => db.close())
  const held = await holdConnections(db, database, config, log)
  if (!held.ok) return held

  onProgress('starting the runtime')
  const artifacts = openArtifacts(db, deps, config, project.value)
  if (!artifacts.ok) return artifacts
  const work = await openWork(db, deps, project.value, log, {
    ...workOptionsOf(config, deps),
    artifacts: artifacts.value,
    works,
    environment,
  })
  if (!work.ok) return work
  closers.add(() => work.value.close())
  const schemaVersion = migrated.value.version
  return accept({ db, url, database, schemaVersion, project: project.value, telemetry, work: work.value })
}

/** Takes what it cannot be without, and says so where the server may not have the rest. */
async function holdConnections(db: Db, where: string, { poolMax }: Config, log: Log): Promise<Decision<void>> {
  try {
    const [room] = await Promise.all(Array.from({ length: POOL_MIN }, () => readConnectionRoom(db)))
    const crowded = room && sayCrowded(room, poolMax)
    if (crowded !== undefined) log.warn({ next: MAKE_ROOM }, crowded)
    return accept(undefined)
  } catch (error) {
    return explainConnect(error, where)
  }
}
