-- The adapter's own tables. One line per process that has an open turn, one per schedule, one per living worker.
-- Applied under the launch lock by the login that owns the database; repeatable. The service's roles get what they need at the end
-- of functions.sql and nothing here.
create schema if not exists runtime;

create table if not exists runtime.installed (
  version integer not null
);

-- Numbers only rise and are never used twice: a turn's name is unique for ever, a later fence is always the greater one.
create sequence if not exists runtime.turn_numbers;
create sequence if not exists runtime.fence_numbers;

-- Rows come and go with open turns: a process that waits for a wake or is done has none, so a million of them cost nothing.
create table if not exists runtime.processes (
  kind        text        not null,
  id          text        not null,
  state       text        not null,
  turn        bigint      not null,
  due_at      timestamptz not null,
  again_at    timestamptz,
  fence       bigint      not null default 0,
  attempt     integer     not null default 0,
  failures    integer     not null default 0,
  why         text,
  detail      text,
  queue       text        not null,
  priority    integer     not null,
  partition   text,
  schedule    text,
  changed_at  timestamptz not null default clock_timestamp(),
  constraint processes_pk primary key (kind, id),
  constraint processes_state_ck check (state in ('idle', 'queued', 'running', 'stuck', 'aborted')),
  constraint processes_why_ck check (why in ('failing', 'crashing', 'no_driver', 'aborted')),
  constraint processes_times_ck check (isfinite(due_at) and isfinite(again_at))
) with (fillfactor = 70);
create index if not exists processes_due_ix on runtime.processes (due_at);
create index if not exists processes_stuck_ix on runtime.processes (changed_at) where state in ('stuck', 'aborted');
create index if not exists processes_schedule_ix on runtime.processes (schedule) where schedule is not null;

create table if not exists runtime.schedules (
  name          text        not null,
  spec          jsonb       not null,
  decided_until timestamptz not null,
  last_due_at   timestamptz,
  held_due_at   timestamptz,
  fired_count   bigint      not null default 0,
  missed_count  bigint      not null default 0,
  constraint schedules_pk primary key (name)
);

-- A worker lives while its session holds its advisory lock and its lease has not run out.
create table if not exists runtime.executors (
  executor_id text        not null,
  started_at  timestamptz not null default clock_timestamp(),
  lease_until timestamptz not null,
  constraint executors_pk primary key (executor_id)
);
