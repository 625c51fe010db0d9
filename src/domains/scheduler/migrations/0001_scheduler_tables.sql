-- 0001 scheduler_tables: jobs, their runs, and everything that puts a job into the queue or keeps it out.
-- Why: one file holds the truth of the scheduler; whatever a restart needs is a row here.
-- Times are integer milliseconds since 1970 in UTC: they sort, compare and add as they are. Ids are canonical UUIDs as text.
-- Additions to the named columns, each where it stands: job_types, job_groups, schedule_firings, notifications, scheduler_owner;
--   jobs: group_order, reservation_id, hold, not_before, cancelled_at; job_runs: error_class, retry_decided, process_*;
--   job_templates: params_schema, archived_at; schedules: priority, misfire_policy, overlap_policy, last_due_at, updated_at,
--   deleted_at; direct_reservations: renewed_at, ended_at.
-- Locks: the whole file while it runs. Reverse: drop the tables; all jobs are lost.

-- The registered kinds of work; `runner` is for whoever starts the work and means nothing here.
create table job_types (
  job_type          text    not null,
  retry_policy      text    not null,
  concurrency_limit integer,
  runner            text,
  created_at        integer not null,
  updated_at        integer not null,
  constraint job_types_pk primary key (job_type),
  constraint job_types_job_type_ck check (
    job_type glob '[a-z]*' and job_type not glob '*[^a-z0-9_.-]*' and length(job_type) <= 64),
  constraint job_types_retry_policy_ck check (json_valid(retry_policy) and json_type(retry_policy) = 'object'),
  constraint job_types_concurrency_limit_ck check (concurrency_limit is null or concurrency_limit >= 1),
  constraint job_types_runner_ck check (runner is null or (json_valid(runner) and json_type(runner) = 'object'))
) strict, without rowid;

create table job_templates (
  template_id   text    not null,
  name          text    not null,
  job_type      text    not null,
  params        text    not null default '{}',
  params_schema text,
  priority      integer not null default 0,
  created_at    integer not null,
  updated_at    integer not null,
  archived_at   integer,
  constraint job_templates_pk primary key (template_id),
  constraint job_templates_job_type_fk foreign key (job_type) references job_types (job_type),
  constraint job_templates_template_id_ck check (
    template_id glob '????????-????-????-????-????????????' and template_id not glob '*[^0-9a-f-]*'),
  constraint job_templates_params_ck check (json_valid(params) and json_type(params) = 'object'),
  constraint job_templates_params_schema_ck check (
    params_schema is null or (json_valid(params_schema) and json_type(params_schema) = 'object')),
  constraint job_templates_priority_ck check (priority between -1000000 and 1000000)
) strict;
create unique index job_templates_name_uq on job_templates (name) where archived_at is null;

-- The status of a group is computed from its members; only the halt after a failure is a fact of its own.
create table job_groups (
  group_id   text    not null,
  name       text,
  mode       text    not null,
  on_failure text    not null,
  created_at integer not null,
  halted_at  integer,
  constraint job_groups_pk primary key (group_id),
  constraint job_groups_group_id_ck check (
    group_id glob '????????-????-????-????-????????????' and group_id not glob '*[^0-9a-f-]*'),
  constraint job_groups_mode_ck check (mode in ('parallel', 'sequential')),
  constraint job_groups_on_failure_ck check (on_failure in ('stop', 'continue', 'skip'))
) strict;

-- A deleted schedule keeps its row: the jobs that it fired point to it.
create table schedules (
  schedule_id       text    not null,
  template_id       text    not null,
  name              text    not null,
  cron_expression   text    not null,
  timezone          text    not null default 'UTC',
  enabled           integer not null default 1,
  param_overrides   text,
  last_triggered_at integer,
  next_trigger_at   integer,
  created_at        integer not null,
  priority          integer,
  misfire_policy    text    not null default 'last',
  overlap_policy    text    not null default 'queue',
  last_due_at       integer,
  updated_at        integer not null,
  deleted_at        integer,
  constraint schedules_pk primary key (schedule_id),
  constraint schedules_template_fk foreign key (template_id) references job_templates (template_id),
  constraint schedules_schedule_id_ck check (
    schedule_id glob '????????-????-????-????-????????????' and schedule_id not glob '*[^0-9a-f-]*'),
  constraint schedules_enabled_ck check (enabled in (0, 1)),
  constraint schedules_param_overrides_ck check (
    param_overrides is null or (json_valid(param_overrides) and json_type(param_overrides) = 'object')),
  constraint schedules_priority_ck check (priority is null or priority between -1000000 and 1000000),
  constraint schedules_misfire_policy_ck check (misfire_policy in ('skip', 'last', 'all')),
  constraint schedules_overlap_policy_ck check (overlap_policy in ('skip', 'queue')),
  constraint schedules_deleted_at_ck check (deleted_at is null or enabled = 0)
) strict;
create unique index schedules_name_uq on schedules (name) where deleted_at is null;
create index schedules_template_ix on schedules (template_id);
create index schedules_due_ix on schedules (next_trigger_at) where enabled = 1;

create table direct_reservations (
  reservation_id text    not null,
  reserved_at    integer not null,
  reserved_by    text    not null,
  status         text    not null default 'ACTIVE',
  expires_at     integer not null,
  renewed_at     integer,
  ended_at       integer,
  constraint direct_reservations_pk primary key (reservation_id),
  constraint direct_reservations_reservation_id_ck check (
    reservation_id glob '????????-????-????-????-????????????' and reservation_id not glob '*[^0-9a-f-]*'),
  constraint direct_reservations_status_ck check (status in ('ACTIVE', 'RELEASED', 'EXPIRED')),
  constraint direct_reservations_expires_at_ck check (expires_at > reserved_at),
  constraint direct_reservations_ended_at_ck check ((status = 'ACTIVE') = (ended_at is null))
) strict;
create unique index direct_reservations_active_uq on direct_reservations (status) where status = 'ACTIVE';

-- `hold` keeps a QUEUED job out of the queue: until `not_before` (delay), until it is its turn in a sequential group (group),
-- or for good, because a direct execution starts it (direct).
create table jobs (
  job_id         text    not null,
  template_id    text,
  schedule_id    text,
  group_id       text,
  job_type       text    not null,
  params         text    not null,
  status         text    not null default 'QUEUED',
  priority       integer not null default 0,
  position       integer not null,
  retry_of       text,
  created_at     integer not null,
  queued_at      integer not null,
  started_at     integer,
  finished_at    integer,
  worker_id      text,
  group_order    integer,
  reservation_id text,
  hold           text,
  not_before     integer,
  cancelled_at   integer,
  constraint jobs_pk primary key (job_id),
  constraint jobs_template_fk foreign key (template_id) references job_templates (template_id),
  constraint jobs_schedule_fk foreign key (schedule_id) references schedules (schedule_id),
  constraint jobs_group_fk foreign key (group_id) references job_groups (group_id),
  constraint jobs_job_type_fk foreign key (job_type) references job_types (job_type),
  constraint jobs_retry_of_fk foreign key (retry_of) references jobs (job_id),
  constraint jobs_reservation_fk foreign key (reservation_id) references direct_reservations (reservation_id),
  constraint jobs_job_id_ck check (job_id glob '????????-????-????-????-????????????' and job_id not glob '*[^0-9a-f-]*'),
  constraint jobs_params_ck check (json_valid(params) and json_type(params) = 'object'),
  constraint jobs_status_ck check (status in ('QUEUED', 'RUNNING', 'CANCELLED')),
  constraint jobs_priority_ck check (priority between -1000000 and 1000000),
  constraint jobs_retry_of_ck check (retry_of is null or retry_of <> job_id),
  constraint jobs_started_at_ck check ((status = 'RUNNING') = (started_at is not null)),
  constraint jobs_finished_at_ck check (finished_at is null or status = 'RUNNING'),
  constraint jobs_cancelled_at_ck check ((status = 'CANCELLED') = (cancelled_at is not null)),
  constraint jobs_group_order_ck check ((group_id is null) = (group_order is null)),
  constraint jobs_hold_ck check (hold is null or hold in ('delay', 'group', 'direct')),
  constraint jobs_hold_delay_ck check (hold is not 'delay' or not_before is not null),
  constraint jobs_hold_group_ck check (hold is not 'group' or group_id is not null),
  constraint jobs_hold_direct_ck check ((hold is 'direct') = (reservation_id is not null))
) strict;
-- The order of the queue: the first entry is the next job, whatever the length (bench/scheduler.ts, 1,000 against 1,000,000).
create index jobs_queue_ix on jobs (status, priority desc, position, created_at, job_id) where status = 'QUEUED' and hold is null;
create index jobs_held_ix on jobs (status, priority desc, position, created_at, job_id) where status = 'QUEUED' and hold is not null;
create index jobs_delayed_ix on jobs (not_before) where status = 'QUEUED' and hold = 'delay';
create index jobs_in_flight_ix on jobs (job_id) where status = 'RUNNING' and finished_at is null;
create index jobs_schedule_ix on jobs (schedule_id) where schedule_id is not null;
create index jobs_template_ix on jobs (template_id) where template_id is not null;
create index jobs_group_ix on jobs (group_id, group_order) where group_id is not null;
-- Who is current in a group, and who comes next: without these a sequential group of n members costs n looks per end.
create index jobs_group_current_ix on jobs (group_id)
  where group_id is not null and finished_at is null and cancelled_at is null and hold is not 'group';
create index jobs_group_waiting_ix on jobs (group_id, group_order, created_at, job_id) where status = 'QUEUED' and hold = 'group';
create unique index jobs_retry_of_uq on jobs (retry_of) where retry_of is not null;

-- `process_*` name a child beyond doubt: a number alone is given again to a stranger.
create table job_runs (
  run_id             text    not null,
  job_id             text    not null,
  template_id        text,
  params_snapshot    text    not null,
  status             text,
  started_at         integer not null,
  finished_at        integer,
  exit_code          integer,
  error              text,
  artifacts          text    not null default '[]',
  log_path           text,
  error_class        text,
  retry_decided      text,
  process_pid        integer,
  process_started_at text,
  process_boot_id    text,
  constraint job_runs_pk primary key (run_id),
  constraint job_runs_job_fk foreign key (job_id) references jobs (job_id),
  constraint job_runs_run_id_ck check (run_id glob '????????-????-????-????-????????????' and run_id not glob '*[^0-9a-f-]*'),
  constraint job_runs_params_snapshot_ck check (json_valid(params_snapshot) and json_type(params_snapshot) = 'object'),
  constraint job_runs_status_ck check (status is null or status in ('COMPLETED', 'FAILED', 'SKIPPED')),
  constraint job_runs_finished_at_ck check (finished_at is null or status is not null),
  constraint job_runs_artifacts_ck check (json_valid(artifacts) and json_type(artifacts) = 'array'),
  constraint job_runs_retry_decided_ck check (
    retry_decided is null or (status is 'FAILED' and retry_decided in ('retry', 'exhausted', 'not_retryable', 'not_listed',
      'stopped', 'direct', 'group_halted', 'orphan_alive', 'chain_broken'))),
  constraint job_runs_process_ck check ((process_pid is null) = (process_started_at is null) and process_pid > 0)
) strict;
create unique index job_runs_job_uq on job_runs (job_id);
-- Empty unless a failure was written without its verdict, so a restart looks at nothing else.
create index job_runs_undecided_ix on job_runs (job_id) where status = 'FAILED' and retry_decided is null;

-- Every due time of a schedule is decided once; a run of missed ones is one row, from `missed_since` to `due_at`.
create table schedule_firings (
  schedule_id  text    not null,
  due_at       integer not null,
  outcome      text    not null,
  job_id       text,
  missed_since integer,
  decided_at   integer not null,
  constraint schedule_firings_pk primary key (schedule_id, due_at),
  constraint schedule_firings_schedule_fk foreign key (schedule_id) references schedules (schedule_id),
  constraint schedule_firings_job_fk foreign key (job_id) references jobs (job_id),
  constraint schedule_firings_outcome_ck check (outcome in ('fired', 'overlapped', 'missed')),
  constraint schedule_firings_job_ck check ((outcome = 'fired') = (job_id is not null)),
  constraint schedule_firings_missed_ck check ((outcome = 'missed') = (missed_since is not null) and missed_since <= due_at)
) strict, without rowid;
create unique index schedule_firings_job_uq on schedule_firings (job_id) where job_id is not null;

-- What is to be told outside, written with the change it tells about. The id is made from what happened, so a repeat of the
-- same fact is the same row, and a receiver can tell a second delivery.
create table notifications (
  seq             integer not null,
  notification_id text    not null,
  kind            text    not null,
  job_id          text,
  payload         text    not null,
  status          text    not null default 'PENDING',
  attempts        integer not null default 0,
  next_attempt_at integer not null,
  last_error      text,
  created_at      integer not null,
  ended_at        integer,
  constraint notifications_pk primary key (seq),
  constraint notifications_job_fk foreign key (job_id) references jobs (job_id),
  constraint notifications_kind_ck check (kind in ('run_completed', 'run_skipped', 'run_failed', 'job_failed', 'job_cancelled',
    'reservation_expired', 'schedule_missed', 'schedule_ended', 'clock_moved_back')),
  constraint notifications_payload_ck check (json_valid(payload) and json_type(payload) = 'object'),
  constraint notifications_status_ck check (status in ('PENDING', 'DELIVERED', 'DEAD')),
  constraint notifications_ended_at_ck check ((status = 'PENDING') = (ended_at is null))
) strict;
create unique index notifications_id_uq on notifications (notification_id);
create index notifications_due_ix on notifications (next_attempt_at, seq) where status = 'PENDING';

-- Tells a second owner whom it met; who owns the file is decided by a lock of the operating system, not here.
create table scheduler_owner (
  one_row    integer not null default 1,
  pid        integer not null,
  started_at integer not null,
  constraint scheduler_owner_pk primary key (one_row),
  constraint scheduler_owner_one_row_ck check (one_row = 1)
) strict;
-- down
drop table scheduler_owner;
drop table notifications;
drop table schedule_firings;
drop table job_runs;
drop table jobs;
drop table direct_reservations;
drop table schedules;
drop table job_groups;
drop table job_templates;
drop table job_types;
