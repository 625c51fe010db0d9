/**
 * Deploys a DAG: versions, jobs, datasets, pointers and operator state in one transaction. A changed job gets new dataset versions, which are built beside
 * those that readers see.
 */
import { validateGraph } from '#kernel/dag/graph'
import type { JsonObject } from '#kernel/json-value'
import { didYouMean } from '#kernel/nearest'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { failpoint, type Tx } from '#store'
import type { Rows } from '#store/rows'
import {
  carryOpenTasks,
  carryOperatorState,
  ensureDatasetVersion,
  findCurrentVersion,
  findDagVersion,
  insertDagVersion,
  insertVersionRows,
  listCurrentJobs,
  listDatasets,
  listDatasetVersions,
  listJobsOfVersion,
  listPartitionsOf,
  listReadVersions,
  listServedVersions,
  lockDeployments,
  type NewJob,
  saveDatasets,
  setCurrentVersion,
  type StoredDagVersion,
  type StoredDataset,
  type StoredFlowJob,
  writeRouteEvents,
} from './dag.ts'
import { type DagSpec, type JobSpec, jobGraph } from './dag-file.ts'
import { configHash, dagHash, locationOf, versionHash } from './decide-flow.ts'
import { type FlowDeps, OUTBOX_CHANNEL } from './deps.ts'

type Deploying = {
  readonly orgId: string
  readonly workspaceId: string
  readonly commandId: string | null
  readonly spec: DagSpec
  /** The id of a new version. */
  readonly versionId: string
  /** Refused unless this version serves now: the caller has named it already. */
  readonly previousId: string | null
}
type Deployed = { readonly version: StoredDagVersion; readonly isNew: boolean }

const inputsOf = (job: JobSpec) => (job.activation === 'reactive' ? job.inputs : [])

export async function deployDag(deps: FlowDeps, tx: Tx, asked: Deploying): Promise<Decision<Deployed>> {
  const { orgId, workspaceId, commandId, spec } = asked
  await lockDeployments(tx, orgId)
  const previous = await findCurrentVersion(tx, orgId, spec.dag)
  if ((previous?.id ?? null) !== asked.previousId)
    return refuse('flow.dag.changed', `The DAG ${spec.dag} has been deployed meanwhile.`)
  const datasets = await listDatasets(tx, orgId)
  const wrong = await checkAround(tx, asked, datasets)
  if (!wrong.ok) return wrong
  const version = await insertDagVersion(tx, {
    id: asked.versionId,
    org_id: orgId,
    dag_name: spec.dag,
    yaml_hash: dagHash(spec),
    workspace_id: workspaceId,
    command_id: commandId,
  })
  const before = previous ? await listJobsOfVersion(tx, previous.id) : []
  if (version.is_new) await writeVersion(deps, tx, asked, { version, before, previous, datasets })
  await failpoint('flow.version_written')
  await switchTo(deps, tx, { version, previous, before })
  const { is_new, ...stored } = version
  return accept({ version: stored, isNew: is_new })
}

/** What one DAG cannot know: datasets of other DAGs, and cycles through them. */
async function checkAround(
  tx: Tx,
  { orgId, spec }: Deploying,
  datasets: readonly StoredDataset[],
): Promise<Decision<null>> {
  const byName = new Map(datasets.map((dataset) => [dataset.name, dataset]))
  const own = new Set(spec.jobs.flatMap(({ outputs = [] }) => outputs))
  for (const [at, job] of spec.jobs.entries()) {
    const taken = (job.outputs ?? [])
      .map((name) => byName.get(name))
      .find((found) => found && found.producer_dag_name !== spec.dag)
    if (taken) {
      const reason = `The dataset ${quote(taken.name)} is produced by ${taken.producer_dag_name}.${taken.producer_job_name}.`
      return refuse('flow.dag.invalid', reason, {
        path: `jobs[${at}].outputs`,
        hint: 'A dataset has one producer. Rename the output.',
      })
    }
    const missing = inputsOf(job).find((name) => !own.has(name) && !byName.has(name))
    if (missing !== undefined) {
      const hint = didYouMean(missing, [...own, ...byName.keys()]).hint ?? 'Deploy its producer first.'
      return refuse('flow.dag.invalid', `There is no dataset ${quote(missing)}.`, { path: `jobs[${at}].inputs`, hint })
    }
  }
  const names = new Map(datasets.map(({ id, name }) => [id, name]))
  const nameOf = (ids: readonly string[] | null) => (ids ?? []).map((id) => names.get(id) ?? id)
  const others = (await listCurrentJobs(tx, orgId))
    .filter(({ dag_name }) => dag_name !== spec.dag)
    .map((job) => ({
      name: `${job.dag_name}.${job.name}`,
      inputs: nameOf(job.input_datasets),
      outputs: nameOf(job.output_datasets),
    }))
  const ours = spec.jobs.map((job) => ({
    name: `${spec.dag}.${job.name}`,
    inputs: inputsOf(job),
    outputs: job.outputs ?? [],
  }))
  const graph = validateGraph(jobGraph([...others, ...ours]))
  return graph.ok
    ? accept(null)
    : refuse('flow.dag.invalid', graph.reason, { path: 'jobs', ...(graph.hint && { hint: graph.hint }) })
}

type Around = {
  readonly version: StoredDagVersion
  readonly previous: StoredDagVersion | undefined
  readonly before: readonly StoredFlowJob[]
  readonly datasets: readonly StoredDataset[]
}

async function writeVersion(deps: FlowDeps, tx: Tx, { orgId, spec }: Deploying, around: Around): Promise<void> {
  const { newId } = deps.commands
  const { version, previous, before } = around
  const known = new Map(around.datasets.map((dataset) => [dataset.name, dataset]))
  const wanted = spec.jobs.flatMap((job) =>
    (job.outputs ?? []).map((name, index) => ({
      id: known.get(name)?.id ?? newId(),
      org_id: orgId,
      name,
      producer_dag_name: spec.dag,
      producer_job_name: job.name,
      producer_output_index: index,
      storage: { ...(spec.datasets?.[name]?.storage ?? { kind: 'table' }) } as JsonObject,
    })),
  )
  for (const dataset of await saveDatasets(tx, { orgId, dag: spec.dag }, wanted)) known.set(dataset.name, dataset)
  const idOf = (name: string) => known.get(name)?.id ?? ''
  const hashes = new Map<string, string>()
  const built = new Map<string, readonly string[]>()
  for (const job of inOrder(spec)) {
    const versions: string[] = []
    const old = before.find(({ name }) => name === job.name)
    for (const [index, name] of (job.outputs ?? []).entries()) {
      const made = await versionOf(deps, tx, { job, index, dataset: known.get(name) as StoredDataset, old, hashes })
      hashes.set(name, made.hash)
      versions.push(made.id)
    }
    built.set(job.name, versions)
  }
  const jobs = spec.jobs.map(
    (job): NewJob => rowOf(job, { orgId, spec, version, id: newId(), idOf, versions: built.get(job.name) ?? [] }),
  )
  const served = new Map(
    (previous ? await listServedVersions(tx, previous.id) : []).map((one) => [one.dataset_uuid, one]),
  )
  await insertVersionRows(tx, version.id, {
    jobs,
    served: jobs.flatMap(({ output_datasets, output_versions }) =>
      (output_datasets ?? []).map((dataset, index) => {
        const old = served.get(dataset)
        // A version without content serves nobody, so the new one may serve from its first partition.
        return { dataset, version: old?.is_filled ? old.dataset_version : (output_versions[index] ?? '') }
      }),
    ),
    columns: spec.jobs.flatMap((job) => columnsOf(job, idOf, jobs.find(({ name }) => name === job.name)?.id ?? null)),
  })
}

/** Producers before their consumers: a version depends on those that it is made of. */
function inOrder(spec: DagSpec): readonly JobSpec[] {
  const nodes = jobGraph(
    spec.jobs.map((job) => ({ name: job.name, inputs: inputsOf(job), outputs: job.outputs ?? [] })),
  )
  const graph = validateGraph(nodes)
  if (!graph.ok) throw new Error(graph.reason)
  return graph.value.order.flatMap((at) => spec.jobs.find(({ name }) => name === graph.value.nodes[at]?.id) ?? [])
}

type Versioned = {
  readonly job: JobSpec
  readonly index: number
  readonly dataset: StoredDataset
  readonly old: StoredFlowJob | undefined
  readonly hashes: ReadonlyMap<string, string>
}

/** A source that keeps its state goes on in its dataset version: a new one would lack what the state has passed. */
async function versionOf(deps: FlowDeps, tx: Tx, { job, index, dataset, old, hashes }: Versioned) {
  const goesOn = job.activation === 'source' && job.bootstrap?.reset_outputs !== true
  const oldId = old?.output_datasets?.[index] === dataset.id ? old.output_versions[index] : undefined
  if (goesOn && oldId !== undefined) {
    const [kept] = await listDatasetVersions(tx, [oldId])
    if (kept) return { id: kept.id, hash: kept.config_hash }
  }
  const { kind, chain_id } = dataset.storage as { readonly kind: string; readonly chain_id?: string }
  const { range_start, range_end } = rangeOf(job.config)
  const hash = versionHash({
    configHash: configHash(job),
    kind,
    chainId: chain_id ?? null,
    rangeStart: range_start,
    rangeEnd: range_end,
    inputs: inputsOf(job).flatMap((name) => hashes.get(name) ?? []),
  })
  const id = deps.commands.newId()
  const storage_location = locationOf(kind, dataset.id, id)
  const made = await ensureDatasetVersion(tx, {
    id,
    dataset_uuid: dataset.id,
    storage_location,
    config_hash: hash,
    range_start,
    range_end,
  })
  return { id: made.id, hash }
}

function rangeOf(config: JsonObject = {}) {
  const { range_start: start, range_end: end } = config
  const text = (value: unknown) =>
    Number.isSafeInteger(value) || (typeof value === 'string' && /^-?\d{1,18}$/.test(value)) ? String(value) : null
  const [range_start, range_end] = [text(start), text(end)]
  return range_start === null || range_end === null
    ? { range_start: null, range_end: null }
    : { range_start, range_end }
}

type JobPlace = {
  readonly orgId: string
  readonly spec: DagSpec
  readonly version: StoredDagVersion
  readonly id: string
  readonly idOf: (dataset: string) => string
  readonly versions: readonly string[]
}

function rowOf(job: JobSpec, { orgId, spec, version, id, idOf, versions }: JobPlace): NewJob {
  const isSource = job.activation === 'source'
  return {
    id,
    org_id: orgId,
    name: job.name,
    dag_name: spec.dag,
    dag_version_id: version.id,
    activation: job.activation,
    runtime: job.runtime,
    operator: job.operator,
    source: isSource ? (job.source as JsonObject) : null,
    bootstrap: isSource ? (job.bootstrap ?? null) : null,
    execution_strategy: isSource ? null : job.execution_strategy,
    idle_timeout: isSource ? null : (job.idle_timeout ?? null),
    config: job.config ?? {},
    config_hash: configHash(job),
    input_datasets: inputsOf(job).map(idOf),
    output_datasets: (job.outputs ?? []).map(idOf),
    update_strategy: job.update_strategy,
    unique_key: job.unique_key ?? null,
    scaling: job.scaling ?? null,
    timeout_seconds: job.timeout_seconds ?? null,
    heartbeat_timeout_seconds: job.heartbeat_timeout_seconds ?? null,
    max_attempts: job.max_attempts ?? null,
    inputs_when: isSource ? 'any' : (job.when ?? 'any'),
    output_versions: versions,
  }
}

/** The columns of each output, as the job declares them. */
function columnsOf(
  job: JobSpec,
  idOf: (dataset: string) => string,
  jobId: string | null,
): readonly Rows['flow.column_lineage'][] {
  return (job.outputs ?? []).flatMap((output) =>
    Object.entries(job.columns ?? {}).flatMap(([column, from]) =>
      from.map((each) => ({
        output_dataset_uuid: idOf(output),
        output_column: column,
        input_dataset_uuid: idOf(each.split('.')[0] ?? ''),
        input_column: each.split('.')[1] ?? '',
        job_id: jobId,
      })),
    ),
  )
}

type Switch = {
  readonly version: StoredDagVersion
  readonly previous: StoredDagVersion | undefined
  readonly before: readonly StoredFlowJob[]
}

const isSameWork = (one: StoredFlowJob, other: StoredFlowJob) =>
  one.config_hash === other.config_hash && String(one.output_versions) === String(other.output_versions)

/** Swaps the pointer. Unchanged jobs go on with their tasks, and jobs that write the same versions with their state. Changed ones are built from what is there. */
async function switchTo(deps: FlowDeps, tx: Tx, { version, previous, before }: Switch): Promise<void> {
  if (previous?.id === version.id) return
  const after = await listJobsOfVersion(tx, version.id)
  const pairs = after.flatMap((job) => {
    const old = before.find(({ name }) => name === job.name)
    return old ? [{ job, old }] : []
  })
  const same = pairs.filter(({ job, old }) => isSameWork(job, old))
  const kept = pairs.filter(({ job, old }) => String(job.output_versions) === String(old.output_versions))
  await carryOperatorState(
    tx,
    kept.map(({ job, old }) => [old.id, job.id]),
  )
  await carryOpenTasks(
    tx,
    same.map(({ job, old }) => [old.id, job.id]),
  )
  await setCurrentVersion(tx, version.org_id, version.dag_name, version.id)
  const unchanged = new Set(same.map(({ job }) => job.id))
  await routeWhatIsThere(
    tx,
    version,
    after.filter(({ id, activation }) => activation === 'reactive' && !unchanged.has(id)),
    after,
  )
  tx.afterCommit(() => deps.announce(OUTBOX_CHANNEL))
}

/** For jobs that are new or changed: an event for each input with what it has already. */
async function routeWhatIsThere(
  tx: Tx,
  version: StoredDagVersion,
  jobs: readonly StoredFlowJob[],
  all: readonly StoredFlowJob[],
): Promise<void> {
  if (jobs.length === 0) return
  const own = new Map(
    all.flatMap((job) =>
      (job.output_datasets ?? []).map((dataset, at) => [dataset, job.output_versions[at] ?? ''] as const),
    ),
  )
  const inputs = [...new Set(jobs.flatMap(({ input_datasets }) => input_datasets ?? []))]
  const foreign = await listReadVersions(
    tx,
    inputs.filter((dataset) => !own.has(dataset)),
  )
  const read = new Map([...own, ...foreign.map((one) => [one.dataset_uuid, one.dataset_version] as const)])
  const partitions = await listPartitionsOf(
    tx,
    inputs.flatMap((dataset) => read.get(dataset) ?? []),
  )
  const events = inputs.flatMap((dataset): JsonObject[] => {
    const dataset_version = read.get(dataset) ?? ''
    const found = partitions.filter((partition) => partition.dataset_version === dataset_version)
    if (found.length === 0) return []
    return [
      {
        dataset_uuid: dataset,
        dataset_version,
        cursor: `deploy:${version.id}`,
        partitions: found.map(({ partition_key, generation, materialized_at }) => ({
          key: partition_key,
          generation,
          at: materialized_at.toISOString(),
        })),
        job_ids: jobs.filter(({ input_datasets }) => input_datasets?.includes(dataset)).map(({ id }) => id),
      },
    ]
  })
  await writeRouteEvents(tx, events)
}

/** Serves an earlier version again. Null: no version, as before the first deployment. `only` is the version that must serve now. */
export async function rollBackDag(
  deps: FlowDeps,
  tx: Tx,
  {
    orgId,
    dag,
    versionId,
    only,
  }: { readonly orgId: string; readonly dag: string; readonly versionId: string | null; readonly only?: string },
): Promise<Decision<{ readonly previousId: string | null }>> {
  await lockDeployments(tx, orgId)
  const previous = await findCurrentVersion(tx, orgId, dag)
  if (only !== undefined && previous?.id !== only) return accept({ previousId: previous?.id ?? null })
  if (versionId === null) {
    await setCurrentVersion(tx, orgId, dag, null)
    return accept({ previousId: previous?.id ?? null })
  }
  const version = await findDagVersion(tx, { orgId, dag, versionId })
  if (!version) return refuse('flow.dag.version_unknown', `The DAG ${quote(dag)} has no such version.`)
  const before = previous ? await listJobsOfVersion(tx, previous.id) : []
  await switchTo(deps, tx, { version, previous, before })
  return accept({ previousId: previous?.id ?? null })
}
