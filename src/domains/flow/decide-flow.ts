/** Pure decisions of flow: hashes, dedupe keys, which tasks an event makes, retries, and the states of jobs. */
import { createHash } from 'node:crypto'
import { canonicalJson } from '#kernel/canonical-json'
import type { Random } from '#kernel/clock'
import { parseIdleTimeout } from '#kernel/duration'
import type { FailureClass } from '#kernel/error-classes'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { decideRetry } from '#kernel/retry'
import { flowRetry } from '#kernel/retry-policy'
import type { DagSpec, JobSpec } from './dag-file.ts'

const sha256 = (value: JsonValue) => createHash('sha256').update(canonicalJson(value)).digest('hex')

/** Over what the YAML means: comments, key order and the place of a job change nothing. */
export function dagHash({ dag, jobs, datasets = {} }: DagSpec): string {
  const sorted = jobs.toSorted((a, b) => (a.name < b.name ? -1 : 1))
  return sha256({ dag, datasets, jobs: sorted } as unknown as JsonValue)
}

/** Over what decides the content of the outputs of a job. Limits, times and its schedule do not. */
export function configHash(job: JobSpec): string {
  const { operator, config = {}, update_strategy, unique_key = [], outputs = [] } = job
  const reads = job.activation === 'reactive' ? [job.execution_strategy, job.when ?? 'any', ...job.inputs] : []
  return sha256({ operator, config, update_strategy, unique_key, outputs, reads })
}

type VersionParts = {
  readonly configHash: string
  /** `table` or `files`. */
  readonly kind: string
  readonly chainId: string | null
  readonly rangeStart: string | null
  readonly rangeEnd: string | null
  /** The hashes of the versions that its producer reads, from the same DAG: a rebuilt input rebuilds its consumers. */
  readonly inputs: readonly string[]
}

export const versionHash = (parts: VersionParts): string => sha256(parts)

/** Where a version is stored: a prefix that ends in `/`, or a table. */
export const locationOf = (kind: string, datasetId: string, versionId: string): string =>
  kind === 'files' ? `datasets/${datasetId}/${versionId}/` : `flow_data.v_${versionId.replaceAll('-', '')}`

// Keys.

/** A partition that was materialised again has its generation in the key: otherwise the second update would be lost. */
export function partitionKey(dataset: string, version: string, partition: string, generation: number): string {
  return `partition:${dataset}:${version}:${partition}${generation === 1 ? '' : `@${generation}`}`
}

export const cursorKey = (dataset: string, version: string, cursor: string): string =>
  `cursor:${dataset}:${version}:${cursor}`

// Routing.

export type Materialized = { readonly key: string; readonly generation: number; readonly at: string }

/** One update of a dataset: an output of a completed task, or an event from outside. */
export type RoutedEvent = {
  readonly dataset: string
  readonly version: string
  readonly partitions: readonly Materialized[]
  /** Names the update for consumers that take each update once. */
  readonly cursor: string
}

/** What a consumer can read of one of its inputs now, by partition key. */
export type ReadableInput = {
  readonly dataset: string
  readonly version: string
  readonly partitions: ReadonlyMap<string, Materialized>
}

type Consumer = {
  readonly execution_strategy: 'PerUpdate' | 'PerPartition' | null
  readonly inputs_when: 'any' | 'all'
}

export type PlannedTask = {
  readonly dedupeKey: string
  readonly partitions: readonly string[]
  readonly inputVersions: JsonObject
  readonly inputs: readonly { readonly dataset: string; readonly partition: string; readonly at: string }[]
}

/**
 * The tasks that an event makes for one consumer. `inputs` are all of its inputs. With `all` a partition counts when each input has it; its key
 * then names every input, so that inputs that end together make one task, whichever event is routed first.
 */
export function planTasks(event: RoutedEvent, job: Consumer, inputs: readonly ReadableInput[]): readonly PlannedTask[] {
  const others = inputs.filter(({ dataset }) => dataset !== event.dataset)
  const isThere = ({ key }: Materialized) => others.every(({ partitions }) => partitions.has(key))
  if (job.execution_strategy === 'PerPartition') {
    return event.partitions
      .filter((partition) => job.inputs_when === 'any' || isThere(partition))
      .map((partition) => taskOf(event, job, others, [partition]))
  }
  const isReady = event.partitions.length > 0 ? event.partitions.every(isThere) : others.every(hasAny)
  return job.inputs_when === 'any' || isReady ? [taskOf(event, job, others, event.partitions)] : []
}

const hasAny = ({ partitions }: ReadableInput) => partitions.size > 0

function taskOf(
  event: RoutedEvent,
  { execution_strategy, inputs_when }: Consumer,
  others: readonly ReadableInput[],
  own: readonly Materialized[],
): PlannedTask {
  const read = [
    { dataset: event.dataset, version: event.version, partitions: own },
    ...others.map(({ dataset, version, partitions }) => ({
      dataset,
      version,
      partitions: own.flatMap(({ key }) => partitions.get(key) ?? []),
    })),
  ].toSorted((a, b) => (a.dataset < b.dataset ? -1 : 1))
  const keyOf = ({ dataset, version, partitions }: (typeof read)[number]) =>
    partitions.map(({ key, generation }) => partitionKey(dataset, version, key, generation))
  const [first] = own
  const dedupeKey =
    execution_strategy === 'PerUpdate' || !first
      ? cursorKey(event.dataset, event.version, event.cursor)
      : inputs_when === 'all' && others.length > 0
        ? read.flatMap(keyOf).join('|')
        : partitionKey(event.dataset, event.version, first.key, first.generation)
  return {
    dedupeKey,
    partitions: own.map(({ key }) => key),
    inputVersions: Object.fromEntries(
      read.map(({ dataset, version, partitions }) => [
        dataset,
        {
          version,
          partitions: Object.fromEntries(partitions.map(({ key, generation, at }) => [key, { generation, at }])),
        },
      ]),
    ),
    inputs: read.flatMap(({ dataset, partitions }) =>
      partitions.map(({ key, at }) => ({ dataset, partition: key, at })),
    ),
  }
}

/** What a task reports about one output. */
export type OutputReport = {
  readonly index: number
  readonly partitions?: readonly string[]
  readonly cursor?: string
  readonly rows?: number
  readonly metrics?: JsonObject
}

// Attempts.

export const LEASE_SECONDS = 60

/** The delay before the next attempt; null: none is left. */
export function decideRetryDelay(
  { attempt, maxAttempts }: { readonly attempt: number; readonly maxAttempts: number | null },
  errorClass: FailureClass,
  random: Random,
): number | null {
  const settings = { ...flowRetry, limit: { attempts: maxAttempts ?? flowRetry.limit.attempts } }
  const decided = decideRetry(settings, { attempt, errorClass, random })
  return decided.retry ? decided.delayMs : null
}

// The states of jobs. They have no column: the tasks of a job tell them.

const sourceStates = ['Pending', 'Running', 'Dead', 'Draining'] as const
const reactiveStates = ['Idle', 'Running'] as const
type JobState = (typeof sourceStates)[number] | (typeof reactiveStates)[number]

type JobActivity = {
  readonly queued: number
  readonly running: number
  /** Running, and its lease or time limit has expired. */
  readonly expired: number
  /** Its worker has been told to stop. */
  readonly draining: number
  readonly lastActivityAt: Date | null
}

/** A source is Pending until a task of it runs; a reactive job is Running while it has work, and for its idle timeout after that. */
export function jobState(
  job: { readonly activation: 'source' | 'reactive'; readonly idle_timeout: string | null },
  { queued, running, expired, draining, lastActivityAt }: JobActivity,
  now: Date,
): JobState {
  if (job.activation === 'source') {
    if (draining > 0) return 'Draining'
    if (running > expired) return 'Running'
    return expired > 0 ? 'Dead' : 'Pending'
  }
  if (queued + running > 0) return 'Running'
  const idle = parseIdleTimeout(job.idle_timeout ?? '0')
  if (lastActivityAt === null || !idle.ok || idle.value === 0) return 'Idle'
  return idle.value === 'never' || now.getTime() - lastActivityAt.getTime() < idle.value ? 'Running' : 'Idle'
}
