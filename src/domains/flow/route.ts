/** Handles the outbox: wakes what runs a task, routes events to consumers, switches readers to complete versions. */
import { z } from 'zod'
import type { JsonObject } from '#kernel/json-value'
import { failpoint, statement, type Tx } from '#store'
import { listPartitionsOf, type StoredFlowJob, writeRouteEvents } from './dag.ts'
import { type Materialized, planTasks, type ReadableInput, type RoutedEvent } from './decide-flow.ts'
import { FLOW_QUEUE, type FlowDeps, FLOW_OFFERS_CHANNEL, TASK_KIND } from './deps.ts'
import { type Drained, drainOutbox, type OutboxRow } from './outbox.ts'
import { createTasks } from './task.ts'

/** Drains one batch of due rows, or of rows that a dead process left when nothing is due. Returns what it has handled. */
export async function drainFlow(deps: FlowDeps, more: { readonly visibilityMs?: number } = {}): Promise<Drained> {
  const options = { handle: (row: OutboxRow) => handleRow(deps, row), random: deps.random, ...more }
  const due = await drainOutbox(deps.commands.db, 'due', options)
  return due.claimed > 0 ? due : drainOutbox(deps.commands.db, 'abandoned', options)
}

const enqueuedPayload = z.object({ task_id: z.string() })

async function handleRow(deps: FlowDeps, { kind, payload, id }: OutboxRow): Promise<void> {
  if (kind === 'enqueue_task') return enqueue(deps, enqueuedPayload.parse(payload).task_id)
  // A row for lineage is there to be read.
  if (kind === 'route_event') await routeEvent(deps, payload, id)
}

/** $1 task. */
const findRuntime = statement<{ readonly runtime: StoredFlowJob['runtime'] }>(
  'flow.find_runtime',
  `select j.runtime from flow.tasks as t join flow.jobs as j on j.id = t.job_id where t.id = $1::uuid and t.status = 'Queued'`,
)

/** A wake carries the id alone. One that is lost or comes twice does no harm: the claim decides. */
async function enqueue(deps: FlowDeps, taskId: string): Promise<void> {
  const [found] = await deps.commands.db.run(findRuntime, [taskId])
  if (!found) return
  if (found.runtime === 'dispatcher' || found.runtime === 'lambda')
    await deps.runtime.wake({ kind: TASK_KIND, id: taskId }, { queue: FLOW_QUEUE })
  else deps.announce(FLOW_OFFERS_CHANNEL)
}

/** $1 after this task. Queued tasks that this process or a function runs. */
const listQueued = statement<{ readonly id: string }>(
  'flow.list_queued',
  `select t.id from flow.tasks as t join flow.jobs as j on j.id = t.job_id and j.runtime in ('dispatcher', 'lambda') join flow.dag_current_versions as c on c.dag_version_id = j.dag_version_id
where t.status = 'Queued' and t.id > $1::uuid order by t.id limit 1000`,
)
const FIRST = '00000000-0000-0000-0000-000000000000'

/** Fills the queue again from the rows: every queued task is woken, also after the queue was lost. Returns how many. */
export async function rehydrateTasks(deps: FlowDeps): Promise<number> {
  let woken = 0
  for (let after = FIRST; ; ) {
    const rows = await deps.commands.db.run(listQueued, [after])
    for (const { id } of rows) await deps.runtime.wake({ kind: TASK_KIND, id }, { queue: FLOW_QUEUE })
    woken += rows.length
    const last = rows.at(-1)
    if (!last) break
    after = last.id
  }
  deps.announce(FLOW_OFFERS_CHANNEL)
  return woken
}

/**
 * $1 dataset, $2 version, $3 jobs or null. Reactive jobs of current versions that read this version: inside the DAG of the producer what its job writes now,
 * elsewhere what readers see. An event of any other version has no consumers.
 */
const listConsumers = statement<StoredFlowJob>(
  'flow.list_consumers',
  `select j.* from flow.datasets as d join flow.jobs as j on j.org_id = d.org_id and j.input_datasets @> array[d.id::text] and j.activation = 'reactive'
  join flow.dag_current_versions as c on c.org_id = j.org_id and c.dag_version_id = j.dag_version_id
where d.id = $1::uuid and ($3::uuid[] is null or j.id = any($3::uuid[])) and case when j.dag_name = d.producer_dag_name
  then exists (select from flow.jobs as p where p.dag_version_id = j.dag_version_id and p.name = d.producer_job_name and $2::uuid = any(p.output_versions))
  else exists (select from flow.dag_current_versions as pc join flow.dag_version_datasets as s on s.dag_version_id = pc.dag_version_id
    where pc.org_id = d.org_id and pc.dag_name = d.producer_dag_name and s.dataset_uuid = d.id and s.dataset_version = $2::uuid) end`,
)

/** $1 job, $2 without this dataset, $3 partition keys. The partitions with these keys in each other input, in the version that the job reads. */
const readInputs = statement<{
  readonly dataset: string
  readonly version: string
  readonly partition_key: string | null
  readonly generation: number | null
  readonly materialized_at: Date | null
}>(
  'flow.read_inputs',
  `with read as (
  select d.id as dataset, case when d.producer_dag_name = j.dag_name
    then (select p.output_versions[d.producer_output_index + 1] from flow.jobs as p where p.dag_version_id = j.dag_version_id and p.name = d.producer_job_name)
    else (select s.dataset_version from flow.dag_current_versions as pc join flow.dag_version_datasets as s on s.dag_version_id = pc.dag_version_id
      where pc.org_id = d.org_id and pc.dag_name = d.producer_dag_name and s.dataset_uuid = d.id) end as version
  from flow.jobs as j cross join lateral unnest(j.input_datasets) as i(id) join flow.datasets as d on d.id = i.id::uuid where j.id = $1::uuid and d.id <> $2::uuid
)
select r.dataset, coalesce(r.version::text, '') as version, p.partition_key, p.generation, p.materialized_at from read as r left join lateral (
  select p.* from flow.dataset_partitions as p where p.dataset_version = r.version and p.partition_key = any($3::text[])
  union all (select p.* from flow.dataset_partitions as p where cardinality($3::text[]) = 0 and p.dataset_version = r.version limit 1)
) as p on true`,
)

const routedPayload = z.object({
  dataset_uuid: z.string(),
  dataset_version: z.string(),
  cursor: z.string(),
  // Both forms of a time are read: the database writes its own into JSON.
  partitions: z.array(
    z.object({ key: z.string(), generation: z.int(), at: z.string().transform((at) => new Date(at).toISOString()) }),
  ),
  /** Only these consumers; without it all. */
  job_ids: z.array(z.string()).optional(),
  /** The task whose completion wrote the event. */
  task_id: z.string().optional(),
})

/** One transaction: the tasks of all consumers, their outbox rows, and the switch of readers if this event has completed a version. */
export async function routeEvent(deps: FlowDeps, payload: JsonObject, outboxId: string): Promise<void> {
  const { dataset_uuid, dataset_version, job_ids, task_id, ...rest } = routedPayload.parse(payload)
  const event: RoutedEvent = { dataset: dataset_uuid, version: dataset_version, ...rest }
  await deps.commands.db.transaction(async (tx) => {
    const causedBy = {
      kind: 'event',
      event_id: outboxId,
      dataset_uuid,
      dataset_version,
      cursor: event.cursor,
      task_id: task_id ?? null,
    }
    for (const job of await tx.run(listConsumers, [event.dataset, event.version, job_ids ?? null])) {
      const planned = planTasks(event, job, await readOthers(tx, job, event))
      await createTasks(
        deps,
        tx,
        planned.map(({ dedupeKey, ...task }) => ({ ...task, jobId: job.id, dedupeKey, causedBy })),
      )
    }
    await failpoint('flow.routed')
    await switchReaders(tx, event.version)
  })
}

async function readOthers(
  tx: Tx,
  job: StoredFlowJob,
  { dataset, partitions }: RoutedEvent,
): Promise<readonly ReadableInput[]> {
  if ((job.input_datasets ?? []).length < 2) return []
  const rows = await tx.run(readInputs, [job.id, dataset, partitions.map(({ key }) => key)])
  const inputs = new Map<string, ReadableInput & { readonly partitions: Map<string, Materialized> }>()
  for (const row of rows) {
    const input = inputs.get(row.dataset) ?? {
      dataset: row.dataset,
      version: row.version,
      partitions: new Map<string, Materialized>(),
    }
    inputs.set(row.dataset, input)
    if (row.partition_key === null || row.generation === null || row.materialized_at === null) continue
    const { partition_key: key, generation, materialized_at } = row
    input.partitions.set(key, { key, generation, at: materialized_at.toISOString() })
  }
  return [...inputs.values()]
}

/**
 * $1 a version that was written. If every dataset of its DAG that is built beside the served one now has all partitions of that one, and no task of them is open,
 * readers of the DAG switch to all of them in this statement. A failed build leaves the old versions serving.
 */
const switchComplete = statement<{ readonly dataset_uuid: string; readonly dataset_version: string }>(
  'flow.switch_readers',
  `with dag as (
  select j.dag_version_id from flow.jobs as j join flow.dag_current_versions as c on c.dag_version_id = j.dag_version_id where $1::uuid = any(j.output_versions) limit 1
), build as (
  select s.dag_version_id, s.dataset_uuid, s.dataset_version as served, o.version as built, j.id as job_id
  from dag join flow.jobs as j on j.dag_version_id = dag.dag_version_id cross join lateral unnest(j.output_datasets, j.output_versions) as o(dataset, version)
    join flow.dag_version_datasets as s on s.dag_version_id = j.dag_version_id and s.dataset_uuid = o.dataset::uuid where s.dataset_version <> o.version
), open as (
  select from build as b where exists (select from flow.tasks as t where t.job_id = b.job_id and (t.status in ('Queued', 'Running') or (t.status = 'Failed' and t.next_retry_at is not null)))
    or exists (select from flow.dataset_partitions as p where p.dataset_version = b.served
      and not exists (select from flow.dataset_partitions as q where q.dataset_version = b.built and q.partition_key = p.partition_key))
)
update flow.dag_version_datasets as s set dataset_version = b.built from build as b
where s.dag_version_id = b.dag_version_id and s.dataset_uuid = b.dataset_uuid and not exists (select from open) returning s.dataset_uuid, s.dataset_version`,
)

/** Consumers in other DAGs read what readers see, so they get the whole version at the switch. */
async function switchReaders(tx: Tx, version: string): Promise<void> {
  const switched = await tx.run(switchComplete, [version])
  if (switched.length === 0) return
  const partitions = await listPartitionsOf(
    tx,
    switched.map(({ dataset_version }) => dataset_version),
  )
  await writeRouteEvents(
    tx,
    switched.map(({ dataset_uuid, dataset_version }) => ({
      dataset_uuid,
      dataset_version,
      cursor: `switch:${dataset_version}`,
      partitions: partitions
        .filter((partition) => partition.dataset_version === dataset_version)
        .map(({ partition_key, generation, materialized_at }) => ({
          key: partition_key,
          generation,
          at: materialized_at.toISOString(),
        })),
    })),
  )
}
