/**
 * Delivers turns with DBOS, in the same Postgres as the book. A turn is one workflow whose body delivers it. The engine's SQL function
 * enqueues it, and one of the polling workers dequeues it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { DBOS, type WorkflowQueue } from '@dbos-inc/dbos-sdk'
import { DEFAULT_PER_WORKER, type QueueSpec, type RuntimeProfile } from '#runtime'
import { type Carrier, type CarrierHost, type EngineLog, type GivenTurn, openWatch, type Watch } from '#runtime/book'
import { type Db, statement } from '#store'
import {
  ENGINE_VERSION,
  type EngineLogger,
  findPoll,
  type InternalsMode,
  migrateEngine,
  type PollNow,
} from './internals.ts'
import { cleanEngine } from './retention.ts'

const APPLICATION = 'concord'
/** Not the version of the program: no waiting turn has code on a stack, so every version can take every turn. */
const APPLICATION_VERSION = 'concord-turn-2'
const WORKFLOW = 'concord.turn.v2'
const OLD_WORKFLOW = 'concord.turn.v1'
/** The engine's own poll interval. */
const PUBLIC_POLL_MS = 50

const dbosProfile: RuntimeProfile = {
  name: 'DBOSDurableRuntime',
  engine: 'dbos',
  engineVersion: ENGINE_VERSION,
  capabilities: {
    durable_workflows: 'composed',
    durable_steps: 'composed',
    queues: 'composed',
    schedules: 'composed',
    signals: 'none',
    subworkflows: 'composed',
    effect_interception: 'composed',
    saga_compensation_native: 'none',
    workflow_versioning: 'none',
  },
  notes: {
    durable_workflows: 'the row of a process is ours; the engine carries its turns to workers',
    queues: 'order and limits are ours; the engine distributes what is due',
    signals: 'a fact on a row and a wake; no payload travels through the runtime',
  },
}

type DbosCarrierOptions = {
  /** `avoid` keeps to the engine's public interface. */
  readonly internals?: InternalsMode
  /** How long finished turns stay in the engine's tables; Concord's own rows hold the record. */
  readonly retainMs?: number
  readonly cleanMs?: number
}

/** Calls the engine's documented function, which enqueues a name only once. A hand-over that a server crash loses is repeated. */
const enqueueTurns = statement(
  'dbos_enqueue_turns',
  `select "dbos".enqueue_workflow(workflow_name => $1, queue_name => t.queue, positional_args => array[t.argument],
     workflow_id => t.name, app_version => $2, priority => t.priority, application_name => $3)
   from set_config('synchronous_commit', 'off', true),
     unnest($4::text[], $5::text[], $6::integer[], $7::json[]) as t (name, queue, priority, argument)`,
)

const POLLED_LOOK_MS = 5

/** Superjson, the default, takes 25–30 times as long, and a few short values do not need it. */
const serializer = {
  name: () => 'concord_json',
  parse: (text: string | null | undefined) =>
    text === null || text === undefined ? null : (JSON.parse(text) as unknown),
  stringify: (value: unknown) => JSON.stringify(value === undefined ? null : value),
}

/** Logs the engine's `info` entries as `debug`: they concern the engine only. */
function loggerOf(log: EngineLog): EngineLogger {
  const say = (level: Parameters<EngineLog>[0]) => (entry: unknown) =>
    log(level, entry instanceof Error ? entry.message : String(entry))
  return { debug: say('debug'), info: say('debug'), warn: say('warn'), error: say('error') }
}

/** The only host of this process: the engine keeps its state in the module, and its workflow is registered once. */
let host: CarrierHost | undefined
let isRegistered = false
/** Polls a queue once more: a claim was spent on a turn that had been handed over again since. */
let pollAgain: ((queue: string) => void) | undefined

function register(): void {
  if (isRegistered) return
  isRegistered = true
  // This carrier never asks the engine to redeliver a turn, so every delivery is the first; the book refuses a second.
  const body = async (turn: GivenTurn) => {
    if (!host) return new Promise<string>(() => {})
    const outcome = await host.deliver(turn, 1)
    // The engine claims the oldest first. Without this, the claims of every poll would go to turns that were replaced meanwhile, and the
    // turns that replaced them would wait for the next hand-over, forever.
    if (outcome === 'stale') pollAgain?.(turn.queue)
    return outcome
  }
  // A turn of a dead worker is handed over under a new name; the engine's own recovery limit must never apply.
  DBOS.registerWorkflow(body, { name: WORKFLOW, maxRecoveryAttempts: 1_000_000 })
}

export function createDbosCarrier(options: DbosCarrierOptions = {}): Carrier {
  const { internals = 'use', retainMs = 900_000, cleanMs = 60_000 } = options
  const queues = new Map<string, WorkflowQueue>()
  const polling = new Set<string>()
  const again = new Set<string>()
  let db: Db | undefined
  let pollNow: PollNow | undefined
  let cleaning: Watch | undefined

  function onError(error: unknown): void {
    host?.log('warn', error instanceof Error ? error.message : String(error))
  }

  /** Runs one poll per queue at a time: two would count the same free slots. */
  async function poll(queue: string, extra: number): Promise<void> {
    const known = queues.get(queue)
    if (!pollNow || !known || !host) return
    if (polling.has(queue)) return void again.add(queue)
    polling.add(queue)
    try {
      // At least what was handed over: a turn that finds no slot waits a moment, then returns to the book.
      await pollNow(known, Math.max(extra, host.freeSlots(queue) + extra))
    } finally {
      polling.delete(queue)
    }
    if (again.delete(queue)) await poll(queue, extra)
  }

  async function defineQueue(name: string, { perWorker = DEFAULT_PER_WORKER }: QueueSpec): Promise<void> {
    const made = await DBOS.registerQueue(engineName(name), {
      workerConcurrency: perWorker,
      minPollingIntervalMs: PUBLIC_POLL_MS,
      onConflict: 'always_update',
    })
    queues.set(name, made)
  }

  return {
    profile: dbosProfile,
    get unavailable() {
      return host ? 'another runtime is open in this process' : undefined
    },
    async open(given) {
      host = given
      db = given.db
      register()
      const { log, executorId } = given
      await given.withLaunchLock(() => migrateEngine(given.db, loggerOf(log), internals))
      DBOS.setConfig({
        name: APPLICATION,
        systemDatabaseUrl: given.db.config.url,
        systemDatabasePool: given.db.pool,
        systemDatabaseSchemaName: 'dbos',
        executorID: executorId,
        applicationVersion: APPLICATION_VERSION,
        serializer,
        listenQueues: internals === 'avoid' ? [...given.queues.keys()].map(engineName) : [],
        // Nothing here waits for messages or events.
        useListenNotify: false,
        runMigrations: false,
        logger: loggerOf(log),
      })
      await DBOS.launch()
      pollNow = findPoll(internals)
      pollAgain = (queue) => void poll(queue, 1).catch(onError)
      if (!pollNow && internals === 'use')
        throw new Error('DBOS no longer has pollQueue; see src/runtime/dbos/internals.ts')
      for (const [name, spec] of given.queues) await defineQueue(name, spec)
      await adoptOldTurns(given.db)
      cleaning = openWatch(cleanMs, () => cleanEngine(given.db, retainMs, [OLD_WORKFLOW, WORKFLOW]), onError)
    },
    async ready() {
      if (!host) return false
      await DBOS.listWorkflows({ workflowIDs: ['none'], limit: 1, loadInput: false, loadOutput: false })
      return true
    },
    async give(turns) {
      if (!db) return turns
      const names = turns.map(({ name }) => name)
      const where = turns.map(({ queue }) => engineName(queue))
      const order = turns.map(({ priority }) => priority)
      const given = turns.map((turn) => JSON.stringify(turn))
      await db.run(enqueueTurns, [WORKFLOW, APPLICATION_VERSION, APPLICATION, names, where, order, given])
      for (const queue of new Set(turns.map((turn) => turn.queue))) poll(queue, turns.length).catch(onError)
      return []
    },
    defineQueue,
    async close(drainMs) {
      // No poll begins any more, and one that is under way still needs the connections of the engine.
      pollAgain = undefined
      pollNow = undefined
      while (polling.size > 0) await sleep(POLLED_LOOK_MS)
      await cleaning?.close()
      await DBOS.shutdown(drainMs === undefined ? {} : { workflowCompletionTimeoutMS: drainMs })
      host = undefined
    },
  }
}

/**
 * Version 3 of the book did not store which worker runs a turn; the engine did, under other names. This copies the engine's record onto
 * the rows once, so that the lease of an older worker counts. The engine's old turns wait in queues that no worker polls, and retention
 * deletes them.
 */
async function adoptOldTurns(db: Db): Promise<void> {
  const found = await db.query(`select from runtime.processes where state = 'running' and executor is null limit 1`)
  if (found.length === 0) return
  const old = await DBOS.listWorkflows({
    workflowName: OLD_WORKFLOW,
    status: 'PENDING',
    loadInput: false,
    loadOutput: false,
  })
  await db.query(
    `update runtime.processes p
     set executor = coalesce((
       select o.executor from unnest($1::text[], $2::text[]) as o (name, executor)
       where o.name = 'turn:' || p.kind || ':' || p.id || ':' || p.turn), 'unknown')
     where p.state = 'running' and p.executor is null`,
    [old.map(({ workflowID }) => workflowID), old.map(({ executorId }) => executorId ?? 'unknown')],
  )
}

function engineName(queue: string): string {
  return `${host?.book ?? ''}:${queue}`
}
