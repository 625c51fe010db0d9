/** Every metric of Concord: its name, its meaning and its source. `/metrics` shows a counter with the ending `_total`. */
import type { Attributes, BatchObservableResult, Meter, Observable } from '@opentelemetry/api'
import type { Answered } from '#api'
import { findOldestPending } from '#domains/approvals'
import { type Count, countOpen, listParked } from '#domains/commands'
import type { Runtime } from '#runtime'
import { type Db, statement } from '#store'
import type { Log } from './log.ts'

export const counters = {
  concord_http_requests: 'Answers of the API, by method, route and status',
  concord_command_statuses: 'Statuses that commands have reached by writes of this process, by status',
  concord_retries: 'Retries of effects that this process has scheduled, by class of error',
  concord_transaction_conflicts:
    'Transactions of this process that were rolled back because of another one, and ran again',
  concord_process_cpu_seconds: 'User and system CPU time of this process',
} as const

export const histograms = {
  concord_http_request_duration_seconds: 'Time until an answer of the API began, by method and route',
} as const

export const gauges = {
  concord_commands_open: 'Commands that have not ended, by status; at most 10,000 of each status are counted',
  concord_queue_lag_seconds: 'How long the oldest due turn has waited for a worker; 0 if none waits',
  concord_oldest_approval_seconds: 'The age of the oldest open approval; 0 if there is none',
  concord_effects_in_doubt: 'Effects of which nobody knows whether they happened, and for which a person was asked',
  concord_stuck: 'Processes and commands that get no more turns until an operator resumes them; at most 2,000',
  concord_workers: 'Workers that are alive',
  concord_mission_event_bytes: 'Size of the tables of events of missions, with their indexes, by table',
  concord_process_resident_memory_bytes: 'Resident memory of this process',
} as const

export function observeProcess(meter: Meter): void {
  gauge(meter, 'concord_process_resident_memory_bytes').addCallback((result) =>
    result.observe(process.memoryUsage.rss()),
  )
  observableCounter(meter, 'concord_process_cpu_seconds').addCallback((result) => {
    const { user, system } = process.cpuUsage()
    result.observe((user + system) / 1e6)
  })
}

const gauge = (meter: Meter, name: keyof typeof gauges) =>
  meter.createObservableGauge(name, { description: gauges[name] })
const observableCounter = (meter: Meter, name: keyof typeof counters) =>
  meter.createObservableCounter(name, { description: counters[name] })

/** Counts and times the answers of the API by route and status, never by address: the number of series is bounded. */
export function openHttpMetrics(meter: Meter): (answered: Answered) => void {
  const name = 'concord_http_requests'
  const requests = meter.createCounter(name, { description: counters[name] })
  const timed = 'concord_http_request_duration_seconds'
  const duration = meter.createHistogram(timed, {
    description: histograms[timed],
    unit: 's',
    advice: { explicitBucketBoundaries: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] },
  })
  return ({ method, route, status, durationMs }) => {
    requests.add(1, { method, route, status })
    duration.record(durationMs / 1_000, { method, route })
  }
}

export function openConflictCount(meter: Meter): () => void {
  let conflicts = 0
  observableCounter(meter, 'concord_transaction_conflicts').addCallback((result) => result.observe(conflicts))
  return () => void (conflicts += 1)
}

/** Counts in memory, and reports when the metrics are read: counting costs a command less than a microsecond. */
export function openTally(meter: Meter): Count {
  const counted = {
    status: { name: 'concord_command_statuses', label: 'status', counts: new Map<string, number>() },
    retry: { name: 'concord_retries', label: 'error_class', counts: new Map<string, number>() },
  } as const
  for (const { name, label, counts } of Object.values(counted))
    observableCounter(meter, name).addCallback((result) => {
      for (const [value, count] of counts) result.observe(count, { [label]: value })
    })
  return (what, value) => {
    const { counts } = counted[what]
    counts.set(value, (counts.get(value) ?? 0) + 1)
  }
}

/** However often the metrics are read, the database is asked once in this time. */
const KEEP_MS = 5_000
const COUNT_MAX = 10_000
const STUCK_MAX = 1_000

type Observed = { readonly db: Db; readonly runtime: Runtime; readonly log: Log }
type Reading = readonly [name: keyof typeof gauges, value: number, labels?: Attributes]

/** The state of all work in the database. Every process reports the same, so take the maximum over processes, not the sum. */
export function observeWork(meter: Meter, { db, runtime, log }: Observed): () => void {
  const observed = new Map<string, Observable>()
  for (const name of workGauges) observed.set(name, gauge(meter, name))
  let [readMs, readings]: [number, Promise<readonly Reading[]>] = [Number.NEGATIVE_INFINITY, Promise.resolve([])]
  let isReading = false
  async function read(): Promise<readonly Reading[]> {
    isReading = true
    try {
      return await readWork(db, runtime)
    } catch (error) {
      log.warn({ err: error }, 'the metrics of the work could not be read')
      return []
    } finally {
      isReading = false
    }
  }
  async function report(result: BatchObservableResult): Promise<void> {
    // A database that hangs is asked once.
    if (!isReading && performance.now() - readMs >= KEEP_MS) {
      readMs = performance.now()
      readings = read()
    }
    for (const [name, value, labels] of await readings) {
      const instrument = observed.get(name)
      if (instrument) result.observe(instrument, value, labels)
    }
  }
  const all = [...observed.values()]
  meter.addBatchObservableCallback(report, all)
  return () => meter.removeBatchObservableCallback(report, all)
}

const workGauges = [
  'concord_commands_open',
  'concord_queue_lag_seconds',
  'concord_oldest_approval_seconds',
  'concord_effects_in_doubt',
  'concord_stuck',
  'concord_workers',
  'concord_mission_event_bytes',
] as const

const eventTables = ['missions.orchestration_events', 'missions.orchestration_events_archive']
const sizes = statement<{ readonly name: string; readonly bytes: number }>(
  'app.event_table_sizes',
  'select name, pg_total_relation_size(name::regclass)::float8 as bytes from unnest($1::text[]) as name',
)

async function readWork(db: Db, runtime: Runtime): Promise<readonly Reading[]> {
  const [{ commands, effectsInDoubt }, oldestMs, { waitingMs, workers }, stuck, parked, tables] = await Promise.all([
    countOpen(db, COUNT_MAX),
    findOldestPending(db),
    runtime.health(),
    runtime.stuck({ limit: STUCK_MAX }),
    listParked(db, STUCK_MAX),
    db.run(sizes, [eventTables]),
  ])
  return [
    ...Object.entries(commands).map(([status, count]): Reading => ['concord_commands_open', count, { status }]),
    ['concord_queue_lag_seconds', (waitingMs ?? 0) / 1_000],
    ['concord_oldest_approval_seconds', (oldestMs ?? 0) / 1_000],
    ['concord_effects_in_doubt', effectsInDoubt],
    ['concord_stuck', stuck.length + parked.length],
    ['concord_workers', workers],
    ...tables.map(({ name, bytes }): Reading => ['concord_mission_event_bytes', bytes, { table: name }]),
  ]
}
