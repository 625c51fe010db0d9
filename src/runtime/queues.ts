/** The queues by which Concord's turns wait for a worker: names that mean something, limits that are configuration. */
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { nearest } from '#kernel/nearest'
import { PRIORITY_MAX } from './process.ts'

export type QueueSpec = {
  /** Turns at once in the whole installation. Counting them costs every worker: prefer `perWorker`. */
  readonly concurrency?: number
  /** Turns at once in one worker. */
  readonly perWorker?: number
  readonly rate?: { readonly turns: number; readonly perMs: number }
  /** Of a wake that names none; smaller goes first. */
  readonly priority?: number
  /** Turns at once for one partition; every wake then has to name its partition. */
  readonly partition?: { readonly concurrency: number }
}

export const DEFAULT_QUEUE = 'concord_default'
/** How many turns a worker takes from a queue that says nothing about it; without a number it would take the whole backlog. */
export const DEFAULT_PER_WORKER = 32

/** What each is for stands in the README; the numbers are for a worker of two cores that mostly waits for others. */
export const semanticQueues: Readonly<Record<string, QueueSpec>> = {
  concord_default: { perWorker: 32 },
  connector_calls: { perWorker: 32 },
  agent_runs: { perWorker: 16 },
  swarm_children: { perWorker: 16 },
  notifications: { perWorker: 16 },
  scheduled_maintenance: { perWorker: 4 },
  compensations: { perWorker: 16 },
  registry_lifecycle: { perWorker: 4 },
}

const NAME = /^[a-z][a-z0-9_]{0,62}$/

export function decideQueue(name: string, spec: QueueSpec): Decision<QueueSpec> {
  if (!NAME.test(name)) {
    return invalid(quote(name), 'is no name: lower-case letters, digits and _, at most 63')
  }
  const { concurrency, perWorker, rate, priority, partition } = spec
  for (const [field, value] of Object.entries({ concurrency, perWorker, partition: partition?.concurrency })) {
    if (value !== undefined && !isCount(value))
      return invalid(name, `has ${field} ${value}, which is no count from 1 on`)
  }
  if (rate && !(isCount(rate.turns) && isCount(rate.perMs))) return invalid(name, 'has a rate without turns or time')
  if (priority !== undefined && !(Number.isInteger(priority) && priority >= 0 && priority <= PRIORITY_MAX)) {
    return invalid(name, `has priority ${priority}, which is not between 0 and ${PRIORITY_MAX}`)
  }
  if (concurrency !== undefined && (perWorker ?? 0) > concurrency) {
    return invalid(name, `lets one worker do ${perWorker} at once and all together ${concurrency}`)
  }
  if (concurrency !== undefined && (partition?.concurrency ?? 0) > concurrency) {
    return invalid(name, `lets one partition do ${partition?.concurrency} at once and all together ${concurrency}`)
  }
  return accept(spec)
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 1
}

function invalid(name: string, what: string): Decision<never> {
  return refuse('runtime.queue.invalid', `the queue ${name} ${what}`, { path: 'runtime.queues' })
}

/** Every queue that a kind or a plan names must be defined before the first turn: a turn on an unknown one waits for ever. */
export function decideQueueNames(defined: ReadonlySet<string>, named: readonly string[]): Decision<void> {
  const unknown = [...new Set(named)].filter((name) => !defined.has(name))
  if (unknown.length === 0) return accept(undefined)
  const told = unknown.map((name) => {
    const near = nearest(name, defined)
    return near === undefined ? quote(name) : `${quote(name)} (did you mean ${quote(near)}?)`
  })
  return refuse('runtime.queue.unknown', `no such queue: ${told.join(', ')}`, {
    path: 'runtime.queues',
    hint: 'Define it at start-up, or name one that is.',
    facts: { unknown, defined: [...defined] },
  })
}
