/** The engine itself: one per process, launched under our names and our version, with one workflow that runs turns. */
import { DBOS } from '@dbos-inc/dbos-sdk'
import type { QueueSpec } from '#runtime'
import type { Db } from '#store'
import { APPLICATION, APPLICATION_VERSION, type EngineLogger, PUBLIC_POLL_MS, WORKFLOW } from './internals.ts'

export type TurnBody = (kind: string, id: string, turn: number, queue: string) => Promise<string>

/** Whoever is open in this process; the workflow is registered once and for all. */
let body: TurnBody | undefined
let isRegistered = false

/** Superjson, the default, takes 25–30 times as long; three short values and a word need nothing of it. */
const serializer = {
  name: () => 'concord_json',
  parse: (text: string | null | undefined) =>
    text === null || text === undefined ? null : (JSON.parse(text) as unknown),
  stringify: (value: unknown) => JSON.stringify(value === undefined ? null : value),
}

export type EngineLog = (level: 'debug' | 'info' | 'warn' | 'error', message: string) => void

/** What the engine finds worth an `info` is for those who look into the engine. */
export function loggerOf(log: EngineLog): EngineLogger {
  const say = (level: Parameters<EngineLog>[0]) => (entry: unknown) =>
    log(level, entry instanceof Error ? entry.message : String(entry))
  return { debug: say('debug'), info: say('debug'), warn: say('warn'), error: say('error') }
}

export type EngineOptions = {
  readonly executorId: string
  readonly body: TurnBody
  /** Undefined: we poll; otherwise the engine polls these. */
  readonly polls?: readonly string[]
  readonly log: EngineLog
}

/** More than one at a time is not possible: the engine keeps its state in the module. */
export function isEngineTaken(): boolean {
  return body !== undefined
}

export async function launchEngine(db: Db, { executorId, body: given, polls, log }: EngineOptions): Promise<void> {
  if (!isRegistered) {
    // Too many recoveries are our own decision, on the process's line; the engine's bound must never come first.
    DBOS.registerWorkflow((...args: Parameters<TurnBody>) => body?.(...args) ?? new Promise<string>(() => {}), {
      name: WORKFLOW,
      maxRecoveryAttempts: 1_000_000,
    })
    isRegistered = true
  }
  body = given
  DBOS.setConfig({
    name: APPLICATION,
    systemDatabaseUrl: db.config.url,
    systemDatabasePool: db.pool,
    systemDatabaseSchemaName: 'dbos',
    executorID: executorId,
    applicationVersion: APPLICATION_VERSION,
    serializer,
    listenQueues: [...(polls ?? [])],
    // Nothing here waits for messages or events.
    useListenNotify: false,
    runMigrations: false,
    logger: loggerOf(log),
  })
  await DBOS.launch()
}

export async function shutDownEngine(drainMs: number | undefined): Promise<void> {
  await DBOS.shutdown(drainMs === undefined ? {} : { workflowCompletionTimeoutMS: drainMs })
  body = undefined
}

/** How many turns a worker takes from a queue that says nothing about it; without a number it would take the whole backlog. */
export const DEFAULT_PER_WORKER = 32

export function registerEngineQueue(name: string, { concurrency, perWorker, rate, partition }: QueueSpec) {
  const most = Math.min(perWorker ?? DEFAULT_PER_WORKER, concurrency ?? Number.POSITIVE_INFINITY)
  return DBOS.registerQueue(name, {
    workerConcurrency: most,
    ...(concurrency === undefined ? {} : { globalConcurrency: concurrency }),
    ...(rate === undefined ? {} : { rateLimit: { limitPerPeriod: rate.turns, periodSec: rate.perMs / 1_000 } }),
    ...(partition === undefined ? {} : { partitionConcurrency: partition.concurrency }),
    minPollingIntervalMs: PUBLIC_POLL_MS,
    onConflict: 'always_update',
  })
}
