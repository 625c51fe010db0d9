/** Starts a worker, and opens what servers and workers share: project, telemetry, database, schema and the governed path. */
import { join } from 'node:path'
import { openSignedPost, webhookChannel } from '#domains/approvals'
import { accept, type Decision, type Refusal } from '#kernel/refusal'
import { type Db, explainConnect, MAKE_ROOM, migrateUp, openDb, readConnectionRoom, sayCrowded } from '#store'
import { type Closers, openClosers, openOrClose } from './lifecycle.ts'
import type { Config, Environment } from './config.ts'
import { type Log, openLog } from './log.ts'
import { observeWork, openConflictCount, openTally } from './metrics.ts'
import { openStore } from './open-store.ts'
import { openArtifacts } from './open-artifacts.ts'
import { type OpenedWork, openWork, type WorkOptions } from './open-work.ts'
import { checkWebhooks, loadProject, type Project } from './project.ts'
import { openTelemetry, type Telemetry } from './telemetry.ts'
import { version } from './version.ts'
import { type SystemDeps, systemDeps } from './system-deps.ts'
import { watchHome } from './watch-home.ts'

export type StartOptions = {
  readonly config: Config
  readonly environment: Environment
  /** The folder of the project, with its `concord.config.ts`. */
  readonly folder: string
  /** Replaces the project of the folder. */
  readonly project?: Project | undefined
  readonly deps?: SystemDeps
  /** Moves the clock of schedules forward, for tests. */
  readonly scheduleAheadMs?: (() => number) | undefined
  readonly log?: Log
  readonly onProgress?: (step: string) => void
  /** False if this process only takes requests and leaves all turns to workers. */
  readonly works?: boolean
}

/** @internal */
export type Base = {
  readonly db: Db
  readonly url: string
  /** The address of the database without its password. */
  readonly database: string
  readonly schemaVersion: number
  /** Its file is null if the folder has no project. */
  readonly project: Project & { readonly file: string | null | undefined }
  readonly telemetry: Telemetry
  readonly work: OpenedWork
}

/** By the value of CONCORD_COUNT_INVITED_APPROVERS. */
const countedInvited = { '0': 'by_others', '1': 'all', strict: 'none' } as const

/** The role of the connections; see docs/decisions/0008-two-database-roles.md. */
export const ENGINE_ROLE = 'concord_engine'
/** A process without connections of its own would take turns that it cannot run. */
const POOL_MIN = 2

function workOptionsOf(config: Config, { now }: SystemDeps): Omit<WorkOptions, 'artifacts'> {
  const { notifyUrl: url, notifySecret = '', queues, environmentName, engine } = config
  const receiver = url === undefined ? undefined : { url, secret: Buffer.from(notifySecret), fetch, now }
  return {
    defaultWorkspace: config.workspace ?? config.defaultWorkspace,
    queues,
    environmentName,
    engine,
    invited: countedInvited[config.countInvited],
    schedulesMax: config.schedulesMax,
    signalKeepMs: config.signalKeep,
    channels: receiver ? [webhookChannel(receiver)] : [],
    onCallRole: config.onCallRole,
    flow: { dataUrl: config.dataUrl, dataFolder: join(config.home, 'datasets'), functionSecret: config.functionSecret },
    alertChannels: receiver ? [{ name: 'webhook', deliver: openSignedPost(receiver) }] : [],
  }
}

/** @internal */
export async function openBase(
  options: StartOptions,
  deps: SystemDeps,
  log: Log,
  closers: Closers,
): Promise<Decision<Base>> {
  const { config, environment, folder, onProgress = () => {}, works = true } = options
  const loaded = options.project ? accept({ ...options.project, file: undefined }) : await loadProject(folder)
  if (!loaded.ok) return loaded
  const project = checkWebhooks(loaded.value)
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
    onConflict: openConflictCount(telemetry.metrics.meter),
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
    count: openTally(telemetry.metrics.meter),
    works,
    environment,
    ...(options.scheduleAheadMs && { scheduleAheadMs: options.scheduleAheadMs }),
  })
  if (!work.ok) return work
  closers.add(() => work.value.close())
  const stopObserving = observeWork(telemetry.metrics.meter, { db, runtime: work.value.runtime, log })
  closers.add(async () => stopObserving())
  const schemaVersion = migrated.value.version
  return accept({ db, url, database, schemaVersion, project: project.value, telemetry, work: work.value })
}

/** Opens the smallest number of connections that the process needs, and logs a warning if the server may not have more. */
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

/** A worker runs work without the API. Any number of workers share one database. */
export type RunningWorker = {
  readonly database: string
  readonly schemaVersion: number
  /** Resolves when the data folder is gone. The caller then closes the worker. */
  readonly lost: Promise<Refusal>
  close(): Promise<void>
}

export async function startWorker(options: StartOptions): Promise<Decision<RunningWorker>> {
  const { deps = systemDeps(), log = openLog(options.config.logLevel) } = options
  const closers = openClosers(log)
  return openOrClose(closers, async () => {
    const base = await openBase(options, deps, log, closers)
    if (!base.ok) return base
    const watched = await watchHome(options.config, log)
    closers.add(() => watched.close())
    await base.value.work.startSchedules()
    const { database, schemaVersion } = base.value
    return accept({ database, schemaVersion, lost: watched.lost, close: () => closers.closeAll() })
  })
}
