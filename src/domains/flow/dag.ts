/** DAG versions, their jobs and datasets: rows, statements and what deploying them writes. */
import type { JsonObject } from '#kernel/json-value'
import { type Sql, statement, type Tx } from '#store'
import type { RowOf, Rows } from '#store/rows'

export type StoredDagVersion = Rows['flow.dag_versions']
export type StoredFlowJob = RowOf<
  'flow.jobs',
  {
    readonly config: JsonObject
    readonly source: JsonObject | null
    readonly bootstrap: JsonObject | null
    readonly scaling: JsonObject | null
  }
>
export type StoredDataset = RowOf<'flow.datasets', { readonly storage: JsonObject }>
type StoredDatasetVersion = Rows['flow.dataset_versions']

/** $1 org. One deployment of an org at a time: datasets belong to the org, not to a DAG. */
const lockOrg = statement(
  'flow.lock_org',
  `select pg_advisory_xact_lock(hashtextextended('flow.deploy:' || $1::text, 0))`,
)
export const lockDeployments = (tx: Tx, orgId: string) => tx.run(lockOrg, [orgId])

/** $1 org, $2 DAG. */
const findCurrent = statement<StoredDagVersion>(
  'flow.find_current_version',
  `select v.* from flow.dag_current_versions as c join flow.dag_versions as v on v.id = c.dag_version_id where c.org_id = $1::uuid and c.dag_name = $2`,
)
export async function findCurrentVersion(sql: Sql, orgId: string, dag: string): Promise<StoredDagVersion | undefined> {
  const [version] = await sql.run(findCurrent, [orgId, dag])
  return version
}

/** $1 org, $2 DAG, $3 version. */
const findVersion = statement<StoredDagVersion>(
  'flow.find_version',
  `select * from flow.dag_versions where org_id = $1::uuid and dag_name = $2 and id = $3::uuid`,
)
export async function findDagVersion(
  sql: Sql,
  { orgId, dag, versionId }: { readonly orgId: string; readonly dag: string; readonly versionId: string },
): Promise<StoredDagVersion | undefined> {
  const [version] = await sql.run(findVersion, [orgId, dag, versionId])
  return version
}

/** $1 org, $2 DAG, $3 hash. */
const findHash = statement<StoredDagVersion>(
  'flow.find_version_of_hash',
  `select * from flow.dag_versions where org_id = $1::uuid and dag_name = $2 and yaml_hash = $3`,
)
export async function findVersionOfHash(
  sql: Sql,
  orgId: string,
  dag: string,
  hash: string,
): Promise<StoredDagVersion | undefined> {
  const [version] = await sql.run(findHash, [orgId, dag, hash])
  return version
}

/** $1 id, $2 org, $3 DAG, $4 hash, $5 workspace, $6 command. The version of the same YAML is returned as it is. */
const insertVersion = statement<StoredDagVersion & { readonly is_new: boolean }>(
  'flow.insert_version',
  `with made as (
  insert into flow.dag_versions (id, org_id, dag_name, yaml_hash, workspace_id, command_id) values ($1::uuid, $2::uuid, $3, $4, $5::uuid, $6::uuid)
  on conflict (org_id, dag_name, yaml_hash) do nothing returning *
)
select *, true as is_new from made union all
select *, false from flow.dag_versions where org_id = $2::uuid and dag_name = $3 and yaml_hash = $4 and not exists (select from made)`,
)
export async function insertDagVersion(
  tx: Tx,
  version: Pick<StoredDagVersion, 'id' | 'org_id' | 'dag_name' | 'yaml_hash' | 'workspace_id' | 'command_id'>,
): Promise<StoredDagVersion & { readonly is_new: boolean }> {
  const { id, org_id, dag_name, yaml_hash, workspace_id, command_id } = version
  const [row] = await tx.run(insertVersion, [id, org_id, dag_name, yaml_hash, workspace_id, command_id])
  if (!row) throw new Error(`The version of ${dag_name} was neither made nor found.`)
  return row
}

/** $1 version. */
const listJobsOf = statement<StoredFlowJob>(
  'flow.list_jobs_of',
  `select * from flow.jobs where dag_version_id = $1::uuid order by name`,
)
export const listJobsOfVersion = (sql: Sql, versionId: string) => sql.run(listJobsOf, [versionId])

/** $1 org. The jobs of every current version. */
const listCurrent = statement<StoredFlowJob>(
  'flow.list_current_jobs',
  `select j.* from flow.dag_current_versions as c join flow.jobs as j on j.dag_version_id = c.dag_version_id where c.org_id = $1::uuid order by j.dag_name, j.name`,
)
export const listCurrentJobs = (sql: Sql, orgId: string) => sql.run(listCurrent, [orgId])

/** $1 org. */
const listDatasetsOf = statement<StoredDataset>(
  'flow.list_datasets',
  `select * from flow.datasets where org_id = $1::uuid order by name`,
)
export const listDatasets = (sql: Sql, orgId: string) => sql.run(listDatasetsOf, [orgId])

/** $1 org, $2 name. */
const findByName = statement<StoredDataset>(
  'flow.find_dataset',
  `select * from flow.datasets where org_id = $1::uuid and name = $2`,
)
export async function findDataset(sql: Sql, orgId: string, name: string): Promise<StoredDataset | undefined> {
  const [dataset] = await sql.run(findByName, [orgId, name])
  return dataset
}

/** $1 rows. The id of a dataset never changes; its place in the DAG may. */
const saveAll = statement<StoredDataset>(
  'flow.save_datasets',
  `insert into flow.datasets as d (id, org_id, name, producer_dag_name, producer_job_name, producer_output_index, storage)
select id, org_id, name, producer_dag_name, producer_job_name, producer_output_index, storage from jsonb_populate_recordset(null::flow.datasets, $1::jsonb)
on conflict (org_id, name) do update set producer_job_name = excluded.producer_job_name, producer_output_index = excluded.producer_output_index,
  storage = excluded.storage, updated_at = statement_timestamp()
returning d.*`,
)
/** $1 org, $2 DAG. Frees the places of all outputs of a DAG: those that it still has take theirs again in the same transaction. */
const freePlaces = statement(
  'flow.free_outputs',
  `update flow.datasets set producer_job_name = 'removed:' || id where org_id = $1::uuid and producer_dag_name = $2`,
)
export async function saveDatasets(
  tx: Tx,
  { orgId, dag }: { readonly orgId: string; readonly dag: string },
  datasets: readonly Omit<StoredDataset, 'read_roles' | 'created_at' | 'updated_at'>[],
): Promise<readonly StoredDataset[]> {
  await tx.run(freePlaces, [orgId, dag])
  return tx.run(saveAll, [JSON.stringify(datasets)])
}

/** $1 id, $2 dataset, $3 location, $4 hash, $5 and $6 range. */
const insertDatasetVersion = statement<StoredDatasetVersion>(
  'flow.insert_dataset_version',
  `with made as (
  insert into flow.dataset_versions (id, dataset_uuid, storage_location, config_hash, range_start, range_end) values ($1::uuid, $2::uuid, $3, $4, $5::bigint, $6::bigint)
  on conflict (dataset_uuid, config_hash, range_start, range_end) do nothing returning *
)
select * from made union all
select * from flow.dataset_versions where dataset_uuid = $2::uuid and config_hash = $4
  and range_start is not distinct from $5::bigint and range_end is not distinct from $6::bigint and not exists (select from made)`,
)
export async function ensureDatasetVersion(
  tx: Tx,
  version: Pick<
    StoredDatasetVersion,
    'id' | 'dataset_uuid' | 'storage_location' | 'config_hash' | 'range_start' | 'range_end'
  >,
): Promise<StoredDatasetVersion> {
  const { id, dataset_uuid, storage_location, config_hash, range_start, range_end } = version
  const values = [id, dataset_uuid, storage_location, config_hash, range_start, range_end]
  const [row] = await tx.run(insertDatasetVersion, values)
  if (!row) throw new Error(`The version of the dataset ${dataset_uuid} was neither made nor found.`)
  return row
}

/** $1 ids. */
const listVersions = statement<StoredDatasetVersion>(
  'flow.list_dataset_versions',
  `select * from flow.dataset_versions where id = any($1::uuid[])`,
)
export const listDatasetVersions = (sql: Sql, ids: readonly string[]) => sql.run(listVersions, [ids])

/** $1 version. What readers of a DAG version see. */
const listServed = statement<{
  readonly dataset_uuid: string
  readonly dataset_version: string
  readonly is_filled: boolean
}>(
  'flow.list_served',
  `select d.dataset_uuid, d.dataset_version, exists (select from flow.dataset_partitions as p where p.dataset_version = d.dataset_version) as is_filled
from flow.dag_version_datasets as d where d.dag_version_id = $1::uuid`,
)
export const listServedVersions = (sql: Sql, versionId: string) => sql.run(listServed, [versionId])

/** $1 jobs. */
const insertJobs = statement(
  'flow.insert_jobs',
  `insert into flow.jobs (id, org_id, name, dag_name, dag_version_id, activation, runtime, operator, source, bootstrap, execution_strategy, idle_timeout, config, config_hash,
  input_datasets, output_datasets, update_strategy, unique_key, scaling, timeout_seconds, heartbeat_timeout_seconds, max_attempts, inputs_when, output_versions)
select id, org_id, name, dag_name, dag_version_id, activation, runtime, operator, source, bootstrap, execution_strategy, idle_timeout, config, config_hash,
  input_datasets, output_datasets, update_strategy, unique_key, scaling, timeout_seconds, heartbeat_timeout_seconds, coalesce(max_attempts, 3), inputs_when, output_versions
from jsonb_populate_recordset(null::flow.jobs, $1::jsonb)`,
)
/** $1 version, $2 datasets, $3 their versions. */
const insertServed = statement(
  'flow.insert_served',
  `insert into flow.dag_version_datasets (dag_version_id, dataset_uuid, dataset_version)
select $1::uuid, dataset, version from unnest($2::uuid[], $3::uuid[]) as s(dataset, version)`,
)
/** $1 rows. Two versions of a DAG share a row: the last one names its job. */
const saveColumns = statement(
  'flow.save_columns',
  `insert into flow.column_lineage (output_dataset_uuid, output_column, input_dataset_uuid, input_column, job_id)
select distinct output_dataset_uuid, output_column, input_dataset_uuid, input_column, job_id from jsonb_populate_recordset(null::flow.column_lineage, $1::jsonb)
on conflict (output_dataset_uuid, output_column, input_dataset_uuid, input_column) do update set job_id = excluded.job_id`,
)

export type NewJob = Omit<StoredFlowJob, 'created_at' | 'updated_at' | 'max_attempts'> & {
  readonly max_attempts: number | null
}

export async function insertVersionRows(
  tx: Tx,
  versionId: string,
  rows: {
    readonly jobs: readonly NewJob[]
    readonly served: readonly { readonly dataset: string; readonly version: string }[]
    readonly columns: readonly Rows['flow.column_lineage'][]
  },
): Promise<void> {
  await tx.run(insertJobs, [JSON.stringify(rows.jobs)])
  await tx.run(insertServed, [
    versionId,
    rows.served.map(({ dataset }) => dataset),
    rows.served.map(({ version }) => version),
  ])
  await tx.run(saveColumns, [JSON.stringify(rows.columns)])
}

/** $1 org, $2 DAG, $3 version. */
const swap = statement(
  'flow.swap_current',
  `insert into flow.dag_current_versions as c (org_id, dag_name, dag_version_id) values ($1::uuid, $2, $3::uuid)
on conflict (org_id, dag_name) do update set dag_version_id = excluded.dag_version_id, updated_at = statement_timestamp()`,
)
/** $1 org, $2 DAG. */
const remove = statement(
  'flow.remove_current',
  `delete from flow.dag_current_versions where org_id = $1::uuid and dag_name = $2`,
)
/** One statement: readers and dispatch see the old version or the new one. Null: no version serves. */
export const setCurrentVersion = (tx: Tx, orgId: string, dag: string, versionId: string | null) =>
  versionId === null ? tx.run(remove, [orgId, dag]) : tx.run(swap, [orgId, dag, versionId])

/**
 * $1 jobs before, $2 jobs after, of the same names. The open tasks of a job that did not change go on under its new row: their events have been routed and
 * would not come again. A task that the new row has already stays where it is.
 */
const carryTasks = statement<{ readonly id: string }>(
  'flow.carry_tasks',
  `update flow.tasks as t set job_id = p.after from unnest($1::uuid[], $2::uuid[]) as p(before, after)
where t.job_id = p.before and (t.status in ('Queued', 'Running') or (t.status = 'Failed' and t.next_retry_at is not null))
  and not exists (select from flow.tasks as o where o.job_id = p.after and o.dedupe_key = t.dedupe_key) returning t.id`,
)
/** $1 jobs before, $2 jobs after. */
const carryState = statement(
  'flow.carry_state',
  `insert into flow.operator_state as s (org_id, job_id, state_key, state, updated_at)
select b.org_id, p.after, b.state_key, b.state, b.updated_at from unnest($1::uuid[], $2::uuid[]) as p(before, after) join flow.operator_state as b on b.job_id = p.before
on conflict (org_id, job_id, state_key) do update set state = excluded.state, updated_at = excluded.updated_at`,
)
type Pairs = readonly (readonly [before: string, after: string])[]
const sides = (pairs: Pairs) => [pairs.map(([before]) => before), pairs.map(([, after]) => after)]
export const carryOpenTasks = (tx: Tx, pairs: Pairs) => tx.run(carryTasks, sides(pairs))
export const carryOperatorState = (tx: Tx, pairs: Pairs) => tx.run(carryState, sides(pairs))

/** $1 versions. */
const listParts = statement<Rows['flow.dataset_partitions']>(
  'flow.list_partitions_of',
  `select * from flow.dataset_partitions where dataset_version = any($1::uuid[]) order by dataset_version, partition_key`,
)
export const listPartitionsOf = (sql: Sql, versions: readonly string[]) => sql.run(listParts, [versions])

/** $1 payloads. */
const writeEvents = statement(
  'flow.write_events',
  `insert into flow.outbox (kind, payload) select 'route_event', e from jsonb_array_elements($1::jsonb) as e`,
)
/** Events that no completion has written: a deployment, a swap, or another system. */
export const writeRouteEvents = async (sql: Sql, events: readonly JsonObject[]): Promise<void> => {
  if (events.length > 0) await sql.run(writeEvents, [JSON.stringify(events)])
}

/** $1 datasets. The version of each that consumers of other DAGs read. */
const listRead = statement<{ readonly dataset_uuid: string; readonly dataset_version: string }>(
  'flow.list_read_versions',
  `select s.dataset_uuid, s.dataset_version from flow.datasets as d
  join flow.dag_current_versions as c on c.org_id = d.org_id and c.dag_name = d.producer_dag_name
  join flow.dag_version_datasets as s on s.dag_version_id = c.dag_version_id and s.dataset_uuid = d.id where d.id = any($1::uuid[])`,
)
export const listReadVersions = (sql: Sql, datasets: readonly string[]) => sql.run(listRead, [datasets])
