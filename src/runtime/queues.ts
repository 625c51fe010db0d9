/** The queues in which turns wait for a worker: fixed names, and limits that are configuration. */
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { nearest } from '#kernel/nearest'
import { PRIORITY_MAX } from './process.ts'

export type QueueSpec = {
  /** Concurrent turns in the whole installation. Every worker pays for the count: prefer `perWorker`. */
  readonly concurrency?: number
  /** Concurrent turns in one worker. */
  readonly perWorker?: number
  readonly rate?: { readonly turns: number; readonly perMs: number }
  /** The priority of a wake that names none; a smaller number goes first. */
  readonly priority?: number
  /** Concurrent turns per partition; every wake must then name its partition. */
  readonly partition?: { readonly concurrency: number }
}

export const DEFAULT_QUEUE = 'concord_default'
/** Turns that a worker takes from a queue without `perWorker`; without a bound it would take the whole backlog. */
export const DEFAULT_PER_WORKER = 32

/** The README describes the purpose of each; the numbers suit a worker on two cores that mostly waits for I/O. */
export const semanticQueues: Readonly<Record<string, QueueSpec>> = {
  concord_default: { perWorker: 32 },
  connector_calls: { perWorker: 32 },
  agent_runs: { perWorker: 16 },
  swarm_children: { perWorker: 16 },
  missions: { perWorker: 16 },
  flow_tasks: { perWorker: 16 },
  notifications: { perWorker: 16 },
  scheduled_maintenance: { perWorker: 4 },
  compensations: { perWorker: 16 },
  registry_lifecycle: { perWorker: 4 },
}

const NAME = /^[a-z][a-z0-9_]{0,62}$/

export function decideQueue(name: string, spec: QueueSpec): Decision<QueueSpec> {
  if (!NAME.test(name)) {
    return invalid(quote(name), 'has an invalid name: use lower-case letters, digits and _, at most 63')
  }
  const { concurrency, perWorker, rate, priority, partition } = spec
  for (const [field, value] of Object.entries({ concurrency, perWorker, partition: partition?.concurrency })) {
    if (value !== undefined && !isCount(value))
      return invalid(name, `has ${field} ${value}, which is not a whole number of at least 1`)
  }
  if (rate && !(isCount(rate.turns) && isCount(rate.perMs))) return invalid(name, 'has a rate without turns or period')
  if (priority !== undefined && !(Number.isInteger(priority) && priority >= 0 && priority <= PRIORITY_MAX)) {
    return invalid(name, `has priority ${priority}, which is not between 0 and ${PRIORITY_MAX}`)
  }
  if (concurrency !== undefined && (perWorker ?? 0) > concurrency) {
    return invalid(name, `allows ${perWorker} turns in one worker but only ${concurrency} in total`)
  }
  if (concurrency !== undefined && (partition?.concurrency ?? 0) > concurrency) {
    return invalid(name, `allows ${partition?.concurrency} turns in one partition but only ${concurrency} in total`)
  }
  return accept(spec)
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 1
}

function invalid(name: string, what: string): Decision<never> {
  return refuse('runtime.queue.invalid', `The queue ${name} ${what}.`, { path: 'runtime.queues' })
}

/** Requires every queue that a kind or a plan names to be defined before the first turn: a turn on an unknown queue waits forever. */
export function decideQueueNames(defined: ReadonlySet<string>, named: readonly string[]): Decision<void> {
  const unknown = [...new Set(named)].filter((name) => !defined.has(name))
  if (unknown.length === 0) return accept(undefined)
  const described = unknown.map((name) => {
    const near = nearest(name, defined)
    return near === undefined ? quote(name) : `${quote(name)} (did you mean ${quote(near)}?)`
  })
  return refuse('runtime.queue.unknown', `There is no such queue: ${described.join(', ')}.`, {
    path: 'runtime.queues',
    hint: 'Define the queue at start-up, or name a defined one.',
    facts: { unknown, defined: [...defined] },
  })
}
