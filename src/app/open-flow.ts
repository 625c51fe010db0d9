/** Opens the flow room of one process: its operators and data store, the drain of its outbox, and its sweeps. */
import { setTimeout as wait } from 'node:timers/promises'
import { openSignedPost } from '#domains/approvals'
import type { CommandDeps } from '#domains/commands'
import { httpReachOf, openGuardedFetch } from '#domains/connectors'
import {
  arrangeSources,
  type DataStore,
  drainFlow,
  FLOW_QUEUE,
  type FlowDeps,
  openOperators,
  openPostgresData,
  openSourceDrive,
  openTaskDrive,
  type Operator,
  OUTBOX_CHANNEL,
  reapTasks,
  rehydrateTasks,
  requeueTasks,
  restartSources,
  SOURCE_KIND,
  TASK_KIND,
} from '#domains/flow'
import type { Drive, Runtime } from '#runtime'
import { type Db, openDb, openNotices } from '#store'
import { every } from './lifecycle.ts'
import type { Log } from './log.ts'
import type { SystemDeps } from './system-deps.ts'

export type FlowOptions = {
  readonly operators: readonly Operator[]
  /** The database of published data; without it operators that read or write data fail, and everything else goes on. */
  readonly dataUrl?: string | undefined
  /** The folder of file datasets. */
  readonly dataFolder?: string | undefined
  /** Signs the calls of functions; without it a DAG with the runtime `lambda` is refused. */
  readonly functionSecret?: string | undefined
}

export type OpenedFlow = {
  readonly deps: FlowDeps
  register(runtime: Runtime, traced: (kind: string, drive: Drive) => Drive): void
  /** Starts the drain and the sweeps. */
  start(): void
  close(): Promise<void>
}

/** The longest delay of a row whose notice was lost. */
const IDLE_MS = 1_000
const SWEEP_MS = 1_000
const SOURCES_MS = 2_000
const REHYDRATE_MS = 30_000
const POOL_MAX = 4

const noData = (reason: string): DataStore => {
  const refuse = () => Promise.reject(new Error(reason))
  return { writeRows: refuse, readRows: refuse, putFile: refuse, getFile: refuse, listFiles: refuse }
}

const ANSWER_BYTES_MAX = 16 * 1_048_576

/** The author of a DAG names the address, so only public addresses over HTTPS are allowed, never one of this network. */
const fetchPublic: Parameters<typeof openOperators>[1] = (url, { signal, headers }) =>
  openGuardedFetch({
    reach: httpReachOf(new URL(url)),
    headers,
    signal,
    bytesMax: ANSWER_BYTES_MAX,
    // What is thrown says enough.
    onFailure: () => {},
  })(url)

export function openFlow(
  {
    db,
    system,
    log,
    works,
  }: { readonly db: Db; readonly system: SystemDeps; readonly log: Log; readonly works: boolean },
  commands: () => { readonly deps: CommandDeps; readonly runtime: Runtime },
  { operators, dataUrl, dataFolder = '.', functionSecret }: FlowOptions,
): OpenedFlow {
  const onError = (error: unknown) => log.warn({ err: error }, 'the notices of flow were interrupted')
  const notices = openNotices(db, { onError })
  const dataDb =
    dataUrl === undefined ? undefined : openDb({ url: dataUrl, poolMax: POOL_MAX, applicationName: 'concord data' })
  const stopping = new AbortController()
  const stops: (() => Promise<unknown>)[] = []
  const deps: FlowDeps = {
    get commands() {
      return commands().deps
    },
    get runtime() {
      return commands().runtime
    },
    operators: openOperators(operators, fetchPublic),
    random: system.random,
    data: dataDb ? openPostgresData(dataDb, dataFolder) : noData('No data store is set: set CONCORD_DATA_URL.'),
    announce: (channel) => notices.announce(channel),
    keepAlive: (everyMs, beat) => every(everyMs, beat, log),
    ...(functionSecret !== undefined && {
      callFunction: (url, body, signal) =>
        openSignedPost({ url, secret: Buffer.from(functionSecret), fetch, now: system.now })(
          `${body.task_id}:${body.attempt}`,
          body,
          signal,
        ),
    }),
    stopping: stopping.signal,
  }
  return {
    deps,
    register(runtime, traced) {
      runtime.register(TASK_KIND, traced(TASK_KIND, openTaskDrive(deps)), { queue: FLOW_QUEUE })
      runtime.register(SOURCE_KIND, traced(SOURCE_KIND, openSourceDrive(deps)), { queue: FLOW_QUEUE })
    },
    start() {
      if (!works) return
      const arranged = new Map<string, string>()
      stops.push(
        runOutbox(deps, notices, log),
        every(SWEEP_MS, () => reapTasks(deps), log),
        every(SWEEP_MS, () => requeueTasks(deps), log),
        every(
          SOURCES_MS,
          async () => (await arrangeSources(deps, arranged)).forEach((problem) => log.warn({}, problem)),
          log,
        ),
        every(SOURCES_MS, () => restartSources(deps), log),
        every(REHYDRATE_MS, () => rehydrateTasks(deps), log),
      )
    },
    async close() {
      stopping.abort()
      await Promise.all(stops.map((stop) => stop()))
      await notices.close()
      await dataDb?.close()
    },
  }
}

/** Drains until it is stopped: at once after a notice, and at the latest after the idle time. */
function runOutbox(deps: FlowDeps, notices: ReturnType<typeof openNotices>, log: Log): () => Promise<void> {
  const stop = new AbortController()
  let nudge = new AbortController()
  const unlisten = notices.listen(OUTBOX_CHANNEL, () => nudge.abort())
  const running = (async () => {
    while (!stop.signal.aborted) {
      nudge = new AbortController()
      const drained = await drainFlow(deps).catch((error: unknown) => {
        log.warn({ err: error }, 'the outbox of flow will be drained again')
        return undefined
      })
      if (drained && drained.claimed > 0) continue
      await wait(IDLE_MS, undefined, { signal: AbortSignal.any([stop.signal, nudge.signal]) }).catch(() => {})
    }
  })()
  return () => {
    stop.abort()
    unlisten()
    return running
  }
}
