-- The book: one row per process with an open turn, one per schedule, one per living worker. The login that owns the database applies
-- this file under the launch lock; it is idempotent. grants.sql gives the service's roles their rights.
create schema if not exists runtime;

create table if not exists runtime.installed (
  version integer not null
);

-- The id of this book, which is part of every name that an engine sees. Two books on one engine, or a book restored from a backup,
-- count their turns from the same number; the id keeps their names apart.
create table if not exists runtime.book (
  id         text        not null,
  changed_at timestamptz not null default clock_timestamp()
);
create unique index if not exists book_one_uq on runtime.book ((true));
insert into runtime.book (id) values (substr(md5(gen_random_uuid()::text), 1, 10)) on conflict do nothing;

-- Numbers only rise and are never reused: a turn's name stays unique, and a later fence is always greater.
create sequence if not exists runtime.turn_numbers;
create sequence if not exists runtime.fence_numbers;

-- Rows exist only for open turns: a process that waits for a wake or is done has none, so a million of them cost nothing.
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
-- The worker that runs the turn, the delivery that began it, the time of its hand-over, and the hand-overs without a begin.
alter table runtime.processes add column if not exists executor text;
alter table runtime.processes add column if not exists delivery integer not null default 0;
alter table runtime.processes add column if not exists given_at timestamptz;
alter table runtime.processes add column if not exists gives integer not null default 0;
-- Since when a due turn has been waiting that came back from the engine without a begin; due_at is then the time of its next hand-over.
alter table runtime.processes add column if not exists refused_since timestamptz;
drop index if exists runtime.processes_due_ix;
create index if not exists processes_waiting_ix on runtime.processes (queue, due_at) where state = 'queued' and given_at is null;
create index if not exists processes_order_ix on runtime.processes (queue, priority, due_at) where state = 'queued' and given_at is null;
create index if not exists processes_given_ix on runtime.processes (given_at) where state = 'queued' and given_at is not null;
create index if not exists processes_refused_ix on runtime.processes (refused_since) where refused_since is not null;
create index if not exists processes_running_ix on runtime.processes (executor) where state = 'running';
create index if not exists processes_stuck_ix on runtime.processes (changed_at) where state in ('stuck', 'aborted');
create index if not exists processes_schedule_ix on runtime.processes (schedule) where schedule is not null;

-- The hand-over times of turns in queues with a rate.
create table if not exists runtime.rate_marks (
  queue text        not null,
  at    timestamptz not null
);
create index if not exists rate_marks_ix on runtime.rate_marks (queue, at);

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

-- A worker is alive while its session holds its advisory lock and its lease has not expired.
create table if not exists runtime.executors (
  executor_id text        not null,
  started_at  timestamptz not null default clock_timestamp(),
  lease_until timestamptz not null,
  constraint executors_pk primary key (executor_id)
);
-- The kinds it drives and the queues it takes; null means all, as written by an older program.
alter table runtime.executors add column if not exists kinds text[];
alter table runtime.executors add column if not exists queues text[];

-- What was corrected after the clock was set back: of each kind how many, the first ids, and how far ahead the furthest lay. Corrections are
-- rare, so nothing deletes the rows.
create table if not exists runtime.clock_repairs (
  repaired_at timestamptz      not null default clock_timestamp(),
  what        text             not null,
  count       integer          not null,
  ids         text[]           not null,
  ahead_ms    double precision not null
);
