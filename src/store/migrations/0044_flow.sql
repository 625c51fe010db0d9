-- 0044 flow: DAGs, jobs, datasets, tasks and their outbox.
-- Why: the flow room keeps datasets up to date. Rows are the state; queues, functions and workers are told about them through the outbox, at least once.
-- Additions to the printed tables: dag_versions has workspace_id and command_id (where the commands of its jobs are submitted, and what deployed it); jobs has inputs_when (a
--   task for any input or for all of them) and output_versions (the dataset versions that its tasks write, by output index: a rebuilt version is written beside the one
--   that readers see); tasks has caused_by (the event, due time or request that made it), memo_of (the task whose outputs it takes) and command_id (the governed command
--   that does its work); the outbox has the kind emit_lineage. The table dataset_partitions is new: without it a second update of a partition cannot be told from a repeated one.
-- Composite keys hold org, DAG and dataset together: a job or a pointer cannot name the version of another DAG, nor a pointer the version of another dataset.
-- Times that are printed with a default are not null. A unique key over a range treats nulls as equal. No foreign key cascades.
-- Indexes: as printed, and tasks_queued_ix and tasks_running_ix for claims (the printed one orders nothing), jobs_input_datasets_ix for routing, jobs_dag_ix for the same job in other versions, dataset_partitions_task_ix,
--   column_lineage_input_ix for the way back, outbox_processing_ix for rows whose drainer died.
-- Locks: none (new tables). Reverse: drop schema flow.
create schema flow;
grant usage on schema flow to concord_engine, concord_app;

create domain flow.task_status as text constraint task_status_ck check (value in ('Queued', 'Running', 'Completed', 'Failed', 'Canceled'));
create domain flow.outbox_status as text constraint outbox_status_ck check (value in ('Pending', 'Processing', 'Done', 'Failed'));
create domain flow.outbox_kind as text constraint outbox_kind_ck check (value in ('enqueue_task', 'route_event', 'emit_lineage'));
create domain flow.activation as text constraint activation_ck check (value in ('source', 'reactive'));
create domain flow.job_runtime as text constraint job_runtime_ck check (value in ('lambda', 'ecs_platform', 'ecs_udf', 'dispatcher'));
create domain flow.execution_strategy as text constraint execution_strategy_ck check (value in ('PerUpdate', 'PerPartition'));
create domain flow.update_strategy as text constraint update_strategy_ck check (value in ('append', 'replace'));
create domain flow.inputs_when as text constraint inputs_when_ck check (value in ('any', 'all'));

create table flow.dag_versions (
  id           uuid                not null default gen_random_uuid(),
  org_id       uuid                not null,
  dag_name     concord.filled_text not null,
  yaml_hash    concord.filled_text not null,
  created_at   concord.finite_time not null default now(),
  workspace_id uuid                not null,
  command_id   uuid,
  constraint dag_versions_pk primary key (id),
  constraint dag_versions_yaml_uq unique (org_id, dag_name, yaml_hash),
  constraint dag_versions_dag_uq unique (org_id, dag_name, id),
  constraint dag_versions_org_fk foreign key (org_id) references identity.orgs (id),
  constraint dag_versions_workspace_fk foreign key (org_id, workspace_id) references identity.workspaces (org_id, id),
  constraint dag_versions_command_fk foreign key (workspace_id, command_id) references concord.commands (workspace_id, command_id)
);
comment on table flow.dag_versions is 'The versions of each DAG: one per content of its YAML, never changed.';

create table flow.dag_current_versions (
  org_id         uuid                not null,
  dag_name       concord.filled_text not null,
  dag_version_id uuid                not null,
  updated_at     concord.finite_time not null default now(),
  constraint dag_current_versions_pk primary key (org_id, dag_name),
  constraint dag_current_versions_org_fk foreign key (org_id) references identity.orgs (id),
  constraint dag_current_versions_version_fk foreign key (org_id, dag_name, dag_version_id) references flow.dag_versions (org_id, dag_name, id)
);
create index dag_current_versions_version_ix on flow.dag_current_versions (dag_version_id);
comment on table flow.dag_current_versions is 'The version of each DAG that serves reads and dispatch.';

create table flow.jobs (
  id                        uuid                 not null default gen_random_uuid(),
  org_id                    uuid                 not null,
  name                      concord.filled_text  not null,
  dag_name                  concord.filled_text  not null,
  dag_version_id            uuid                 not null,
  activation                flow.activation      not null,
  runtime                   flow.job_runtime     not null,
  operator                  concord.filled_text  not null,
  source                    concord.object_json,
  bootstrap                 concord.object_json,
  execution_strategy        flow.execution_strategy,
  idle_timeout              concord.filled_text,
  config                    concord.object_json  not null default '{}',
  config_hash               concord.filled_text  not null,
  input_datasets            text[],
  output_datasets           text[],
  update_strategy           flow.update_strategy not null,
  unique_key                text[],
  scaling                   concord.object_json,
  timeout_seconds           concord.count_from_one,
  heartbeat_timeout_seconds concord.count_from_one,
  max_attempts              concord.count_from_one not null default 3,
  created_at                concord.finite_time  not null default now(),
  updated_at                concord.finite_time  not null default now(),
  inputs_when               flow.inputs_when     not null default 'any',
  output_versions           uuid[]               not null default '{}',
  constraint jobs_pk primary key (id),
  constraint jobs_name_uq unique (dag_version_id, name),
  constraint jobs_org_uq unique (org_id, id),
  constraint jobs_org_fk foreign key (org_id) references identity.orgs (id),
  constraint jobs_version_fk foreign key (org_id, dag_name, dag_version_id) references flow.dag_versions (org_id, dag_name, id),
  constraint jobs_activation_ck check (case activation
    when 'source' then source is not null and execution_strategy is null and idle_timeout is null and cardinality(coalesce(input_datasets, '{}')) = 0
    else source is null and bootstrap is null and execution_strategy is not null and cardinality(coalesce(input_datasets, '{}')) > 0 end),
  constraint jobs_unique_key_ck check (update_strategy <> 'append' or cardinality(coalesce(unique_key, '{}')) > 0),
  constraint jobs_outputs_ck check (cardinality(output_versions) = cardinality(coalesce(output_datasets, '{}')))
);
create index idx_jobs_dag_version on flow.jobs (dag_version_id);
create index jobs_dag_ix on flow.jobs (org_id, dag_name, name);
create index jobs_input_datasets_ix on flow.jobs using gin (input_datasets);
comment on table flow.jobs is 'The jobs of each version of a DAG: one row per job and version.';
comment on column flow.jobs.output_versions is 'The dataset versions that its tasks write, by output index.';

create table flow.datasets (
  id                    uuid                    not null default gen_random_uuid(),
  org_id                uuid                    not null,
  name                  concord.filled_text     not null,
  producer_dag_name     concord.filled_text     not null,
  producer_job_name     concord.filled_text     not null,
  producer_output_index concord.count_from_zero not null,
  storage               concord.object_json     not null default '{}',
  read_roles            text[]                  not null default '{}',
  created_at            concord.finite_time     not null default now(),
  updated_at            concord.finite_time     not null default now(),
  constraint datasets_pk primary key (id),
  constraint datasets_name_uq unique (org_id, name),
  constraint datasets_producer_uq unique (org_id, producer_dag_name, producer_job_name, producer_output_index),
  constraint datasets_org_fk foreign key (org_id) references identity.orgs (id)
);
comment on table flow.datasets is 'The datasets of an org. A name is one UUID for ever, and has one producer.';

create table flow.dataset_versions (
  id               uuid                not null default gen_random_uuid(),
  dataset_uuid     uuid                not null,
  created_at       concord.finite_time not null default now(),
  storage_location concord.filled_text not null,
  config_hash      concord.filled_text not null,
  schema_hash      text,
  range_start      bigint,
  range_end        bigint,
  constraint dataset_versions_pk primary key (id),
  constraint dataset_versions_dataset_uq unique (dataset_uuid, id),
  constraint dataset_versions_config_uq unique nulls not distinct (dataset_uuid, config_hash, range_start, range_end),
  constraint dataset_versions_dataset_fk foreign key (dataset_uuid) references flow.datasets (id),
  constraint dataset_versions_range_ck check ((range_start is null) = (range_end is null) and coalesce(range_start <= range_end, true))
);
comment on table flow.dataset_versions is 'The versions of a dataset. A rebuilt one is written beside the one that serves.';

create table flow.dag_version_datasets (
  dag_version_id  uuid not null,
  dataset_uuid    uuid not null,
  dataset_version uuid not null,
  constraint dag_version_datasets_pk primary key (dag_version_id, dataset_uuid),
  constraint dag_version_datasets_dag_fk foreign key (dag_version_id) references flow.dag_versions (id),
  constraint dag_version_datasets_dataset_fk foreign key (dataset_uuid) references flow.datasets (id),
  constraint dag_version_datasets_version_fk foreign key (dataset_uuid, dataset_version) references flow.dataset_versions (dataset_uuid, id)
);
create index dag_version_datasets_dataset_ix on flow.dag_version_datasets (dataset_uuid, dataset_version);
comment on table flow.dag_version_datasets is 'The dataset version that readers of a DAG version see.';

create table flow.tasks (
  id               uuid                   not null default gen_random_uuid(),
  job_id           uuid                   not null,
  dedupe_key       concord.filled_text,
  status           flow.task_status       not null default 'Queued',
  attempt          concord.count_from_one not null default 1,
  partitions       text[],
  input_versions   concord.object_json,
  outputs          concord.list_json,
  worker_id        text,
  lease_token      uuid,
  lease_expires_at concord.finite_time,
  last_heartbeat   concord.finite_time,
  started_at       concord.finite_time,
  completed_at     concord.finite_time,
  next_retry_at    concord.finite_time,
  error_message    text,
  created_at       concord.finite_time    not null default now(),
  caused_by        concord.object_json,
  memo_of          uuid,
  command_id       uuid,
  constraint tasks_pk primary key (id),
  constraint tasks_job_fk foreign key (job_id) references flow.jobs (id),
  constraint tasks_memo_fk foreign key (memo_of) references flow.tasks (id),
  constraint tasks_command_fk foreign key (command_id) references concord.commands (command_id),
  constraint tasks_lease_ck check (status <> 'Running' or (worker_id is not null and lease_token is not null and lease_expires_at is not null and started_at is not null)),
  constraint tasks_free_ck check (status not in ('Queued', 'Canceled') or (worker_id is null and lease_token is null and lease_expires_at is null)),
  constraint tasks_ended_ck check ((status in ('Completed', 'Canceled')) = (completed_at is not null)),
  constraint tasks_retry_ck check (next_retry_at is null or status = 'Failed'),
  constraint tasks_memo_ck check (memo_of is null or status = 'Completed')
) with (fillfactor = 70);
create unique index idx_tasks_job_dedupe on flow.tasks (job_id, dedupe_key) where dedupe_key is not null;
create index idx_tasks_status on flow.tasks (status) where status in ('Queued', 'Running');
create index idx_tasks_next_retry on flow.tasks (next_retry_at) where status = 'Failed';
create index idx_tasks_lease_expiry on flow.tasks (lease_expires_at) where status = 'Running';
create index tasks_queued_ix on flow.tasks (job_id, created_at, id) where status = 'Queued';
create index tasks_running_ix on flow.tasks (job_id) where status = 'Running';
comment on table flow.tasks is 'The executions of jobs. A failed task without next_retry_at is final.';
comment on column flow.tasks.caused_by is 'The event, due time or request that made it.';
comment on column flow.tasks.command_id is 'The governed command that does the work of this attempt.';

create table flow.outbox (
  id           bigserial               not null,
  kind         flow.outbox_kind        not null,
  payload      concord.object_json     not null,
  status       flow.outbox_status      not null default 'Pending',
  available_at concord.finite_time     not null default now(),
  attempts     concord.count_from_zero not null default 0,
  last_error   text,
  created_at   concord.finite_time     not null default now(),
  processed_at concord.finite_time,
  constraint outbox_pk primary key (id),
  constraint outbox_processed_ck check ((status = 'Done') = (processed_at is not null))
) with (fillfactor = 70);
create index idx_outbox_pending on flow.outbox (status, available_at) where status = 'Pending';
create index outbox_processing_ix on flow.outbox (available_at) where status = 'Processing';
create index outbox_lineage_ix on flow.outbox (id) where kind = 'emit_lineage';
comment on table flow.outbox is 'Effects that follow a commit, at least once. A claim moves available_at forward: that time is its fence.';

create table flow.task_inputs (
  task_id             uuid                not null,
  input_dataset_uuid  uuid                not null,
  input_partition_key text                not null,
  input_version       concord.finite_time not null,
  constraint task_inputs_pk primary key (task_id, input_dataset_uuid, input_partition_key),
  constraint task_inputs_task_fk foreign key (task_id) references flow.tasks (id),
  constraint task_inputs_dataset_fk foreign key (input_dataset_uuid) references flow.datasets (id)
);
create index task_inputs_dataset_ix on flow.task_inputs (input_dataset_uuid, input_partition_key);
comment on table flow.task_inputs is 'What each task read: the partition, and when it was materialised.';

create table flow.dataset_partitions (
  dataset_version uuid                   not null,
  partition_key   concord.filled_text    not null,
  materialized_at concord.finite_time    not null,
  generation      concord.count_from_one not null,
  task_id         uuid                   not null,
  rows            bigint,
  metrics         concord.object_json    not null default '{}',
  constraint dataset_partitions_pk primary key (dataset_version, partition_key),
  constraint dataset_partitions_version_fk foreign key (dataset_version) references flow.dataset_versions (id),
  constraint dataset_partitions_task_fk foreign key (task_id) references flow.tasks (id)
) with (fillfactor = 70);
create index dataset_partitions_task_ix on flow.dataset_partitions (task_id);
comment on table flow.dataset_partitions is 'What is materialised in each dataset version. The generation counts how often.';

create table flow.column_lineage (
  output_dataset_uuid uuid                not null,
  output_column       concord.filled_text not null,
  input_dataset_uuid  uuid                not null,
  input_column        concord.filled_text not null,
  job_id              uuid,
  constraint column_lineage_pk primary key (output_dataset_uuid, output_column, input_dataset_uuid, input_column),
  constraint column_lineage_output_fk foreign key (output_dataset_uuid) references flow.datasets (id),
  constraint column_lineage_input_fk foreign key (input_dataset_uuid) references flow.datasets (id),
  constraint column_lineage_job_fk foreign key (job_id) references flow.jobs (id)
);
create index column_lineage_input_ix on flow.column_lineage (input_dataset_uuid, input_column);
comment on table flow.column_lineage is 'From which input column each output column comes, as the job declares it.';

create table flow.operator_state (
  org_id     uuid                not null,
  job_id     uuid                not null,
  state_key  concord.filled_text not null default 'default',
  state      concord.object_json not null default '{}',
  updated_at concord.finite_time not null default now(),
  constraint operator_state_pk primary key (org_id, job_id, state_key),
  constraint operator_state_org_fk foreign key (org_id) references identity.orgs (id),
  constraint operator_state_job_fk foreign key (org_id, job_id) references flow.jobs (org_id, id)
);
comment on table flow.operator_state is 'What an operator remembers between tasks. It is written with the completion of the task that changed it.';

alter table flow.dag_versions enable row level security, force row level security;
alter table flow.dag_current_versions enable row level security, force row level security;
alter table flow.jobs enable row level security, force row level security;
alter table flow.datasets enable row level security, force row level security;
alter table flow.dataset_versions enable row level security, force row level security;
alter table flow.dag_version_datasets enable row level security, force row level security;
alter table flow.tasks enable row level security, force row level security;
alter table flow.outbox enable row level security, force row level security;
alter table flow.task_inputs enable row level security, force row level security;
alter table flow.dataset_partitions enable row level security, force row level security;
alter table flow.column_lineage enable row level security, force row level security;
alter table flow.operator_state enable row level security, force row level security;

create policy dag_versions_engine on flow.dag_versions to concord_engine using (true) with check (true);
create policy dag_current_versions_engine on flow.dag_current_versions to concord_engine using (true) with check (true);
create policy jobs_engine on flow.jobs to concord_engine using (true) with check (true);
create policy datasets_engine on flow.datasets to concord_engine using (true) with check (true);
create policy dataset_versions_engine on flow.dataset_versions to concord_engine using (true) with check (true);
create policy dag_version_datasets_engine on flow.dag_version_datasets to concord_engine using (true) with check (true);
create policy tasks_engine on flow.tasks to concord_engine using (true) with check (true);
create policy outbox_engine on flow.outbox to concord_engine using (true) with check (true);
create policy task_inputs_engine on flow.task_inputs to concord_engine using (true) with check (true);
create policy dataset_partitions_engine on flow.dataset_partitions to concord_engine using (true) with check (true);
create policy column_lineage_engine on flow.column_lineage to concord_engine using (true) with check (true);
create policy operator_state_engine on flow.operator_state to concord_engine using (true) with check (true);

-- A request sees the rows of its org: a table without an org shows what belongs to a row that the request sees. The inner tables have the same wall.
create policy jobs_app on flow.jobs for select to concord_app using (org_id = (select identity.current_org_id()));
create policy datasets_app on flow.datasets for select to concord_app using (org_id = (select identity.current_org_id()));
create policy dag_current_versions_app on flow.dag_current_versions for select to concord_app using (org_id = (select identity.current_org_id()));
create policy operator_state_app on flow.operator_state for select to concord_app using (org_id = (select identity.current_org_id()));
create policy dag_versions_app on flow.dag_versions for select to concord_app
  using (org_id = (select identity.current_org_id()) and nullif(current_setting('concord.workspace_id', true), '') is not null);
create policy dataset_versions_app on flow.dataset_versions for select to concord_app using (exists (select from flow.datasets d where d.id = dataset_uuid));
create policy dag_version_datasets_app on flow.dag_version_datasets for select to concord_app using (exists (select from flow.datasets d where d.id = dataset_uuid));
create policy tasks_app on flow.tasks for select to concord_app using (exists (select from flow.jobs j where j.id = job_id));
create policy task_inputs_app on flow.task_inputs for select to concord_app using (exists (select from flow.tasks t where t.id = task_id));
create policy dataset_partitions_app on flow.dataset_partitions for select to concord_app using (exists (select from flow.tasks t where t.id = task_id));
create policy column_lineage_app on flow.column_lineage for select to concord_app using (exists (select from flow.datasets d where d.id = output_dataset_uuid));
create policy outbox_app on flow.outbox for select to concord_app using (
  exists (select from flow.tasks t where t.id = (payload->>'task_id')::uuid) or exists (select from flow.datasets d where d.id = (payload->>'dataset_uuid')::uuid));

grant select, insert on flow.dag_versions, flow.task_inputs to concord_engine;
grant select, insert, update on flow.jobs, flow.datasets, flow.dataset_versions, flow.dag_version_datasets, flow.tasks, flow.outbox, flow.dataset_partitions,
  flow.column_lineage, flow.operator_state to concord_engine;
-- The undo of the first deployment leaves no version that serves.
grant select, insert, update, delete on flow.dag_current_versions to concord_engine;
grant usage on sequence flow.outbox_id_seq to concord_engine;
grant select on flow.dag_versions, flow.dag_current_versions, flow.jobs, flow.datasets, flow.dataset_versions, flow.dag_version_datasets, flow.tasks, flow.outbox,
  flow.task_inputs, flow.dataset_partitions, flow.column_lineage, flow.operator_state to concord_app;

-- down
drop schema flow cascade;
