-- 0039 orchestration: missions, their tasks, the edges between tasks, and the log of both.
-- Why: what is ready to run is decided from rows alone, so that a mission outlives every process. Each change of a state is written with its event.
-- Additions to the printed tables. runs: command_id (the command that opened the mission and waits for it), gate_command_id (the command that starts the
--   plan), run_after (when the next turn is due), report_id (its report; an ended run without one has yet to write it). tasks: spec (what to run, under which temporary id), remaining (how many upstream ends its rule still
--   waits for), command_id (its newest attempt). edges: run_id, which holds both ends in one run. events: xid. tasks.duration_ms is BIGINT: a task may
--   wait for a person for more than 24.8 days.
-- Domains have no IF NOT EXISTS in Postgres; the runner makes a second run a no-op.
-- Indexes: as printed; orchestration_tasks_run_state_ix and orchestration_tasks_run_order_ix for a turn, which reads the ready tasks of one run, and those in one
--   state in their order; orchestration_tasks_claim_ix for the workers of a queue; the rest for foreign keys.
-- Locks: short, on board_tasks and agent_reports; their indexes are built after the commit. Reverse: drop what was added.
create domain missions.state_type as varchar(10) constraint state_type_ck check (value in ('pending', 'running', 'paused', 'terminal'));
create domain missions.run_state as varchar(30) constraint run_state_ck check (value in (
  'pending', 'planning', 'awaiting_approval', 'running', 'paused', 'budget_exceeded', 'completed', 'failed', 'cancelled'));
create domain missions.task_state as varchar(30) constraint task_state_ck check (value in (
  'pending', 'queued', 'awaiting_retry', 'assigned', 'running', 'continuing', 'verifying', 'awaiting_human', 'completed', 'failed', 'cancelled',
  'skipped'));
create domain missions.task_type as varchar(30) constraint task_type_ck check (value in (
  'research', 'analysis', 'writing', 'coding', 'verification', 'review', 'synthesis', 'other'));
create domain missions.trigger_rule as varchar(30) constraint trigger_rule_ck check (value in ('all_success', 'all_done', 'none_failed', 'always'));
create domain missions.agent_type as varchar(20) constraint agent_type_ck check (value in ('roster', 'contractor'));
create domain missions.dependency_type as varchar(20) constraint dependency_type_ck check (value in ('data', 'ordering'));
create domain missions.event_type as varchar(50) constraint event_type_ck check (value in (
  'run_created', 'run_planning_started', 'run_plan_ready', 'run_approved', 'run_rejected', 'run_started', 'run_paused', 'run_resumed',
  'run_budget_warning', 'run_budget_exceeded', 'run_budget_increased', 'run_completed', 'run_failed', 'run_cancelled',
  'task_created', 'task_queued', 'task_assigned', 'task_started', 'task_continuing', 'task_resumed', 'task_output_submitted',
  'task_verification_started', 'task_verification_passed', 'task_verification_failed', 'task_human_review_requested', 'task_human_approved',
  'task_human_rejected', 'task_retrying', 'task_crashed', 'task_failed', 'task_skipped', 'task_cancelled',
  'stall_detected', 'model_fallback', 'cost_snapshot', 'plan_change_rejected'));
create domain missions.actor_type as varchar(20) constraint actor_type_ck check (value in (
  'system', 'coordinator', 'agent', 'verifier', 'human', 'reconciler'));
create domain missions.cost as numeric(10,6) constraint cost_ck check (value between 0 and 9999.999999);
create domain missions.score as numeric(3,2) constraint score_ck check (value between 0 and 1);
create domain missions.ordinal as smallint constraint ordinal_ck check (value >= 1);
create domain missions.turn_count as smallint constraint turn_count_ck check (value >= 0);

create table if not exists missions.orchestration_runs (
  id                   uuid                    not null default gen_random_uuid(),
  workspace_id         uuid                    not null,
  title                varchar(500)            not null,
  description          text,
  goal                 text                    not null,
  state                missions.run_state      not null default 'pending',
  state_type           missions.state_type     not null default 'pending',
  plan                 jsonb,
  config               jsonb                   not null default '{}',
  result_summary       text,
  error_message        text,
  created_by           varchar(255)            not null,
  coordinator_agent_id integer,
  total_tokens         concord.count_from_zero not null default 0,
  total_cost           missions.cost           not null default 0,
  task_count           concord.count_from_zero not null default 0,
  tasks_completed      concord.count_from_zero not null default 0,
  tasks_failed         concord.count_from_zero not null default 0,
  started_at           concord.finite_time,
  completed_at         concord.finite_time,
  duration_ms          bigint,
  version_id           concord.count_from_one  not null default 1,
  created_at           concord.finite_time     not null default now(),
  updated_at           concord.finite_time     not null default now(),
  tags                 jsonb                   not null default '{}',
  command_id           uuid                    not null,
  gate_command_id      uuid,
  run_after            concord.finite_time,
  account_id           uuid,
  forked_from_id       uuid,
  report_id            integer,
  constraint orchestration_runs_pk primary key (id),
  constraint orchestration_runs_workspace_uq unique (id, workspace_id),
  constraint orchestration_runs_command_uq unique (command_id),
  constraint orchestration_runs_workspace_fk foreign key (workspace_id) references identity.workspaces (id) on delete cascade,
  constraint orchestration_runs_agent_fk foreign key (workspace_id, coordinator_agent_id)
    references missions.agents (workspace_id, id) on delete set null (coordinator_agent_id),
  constraint orchestration_runs_command_fk foreign key (workspace_id, command_id) references concord.commands (workspace_id, command_id),
  constraint orchestration_runs_gate_fk foreign key (workspace_id, gate_command_id) references concord.commands (workspace_id, command_id),
  constraint orchestration_runs_account_fk foreign key (account_id, workspace_id) references concord.budget_accounts (account_id, workspace_id),
  constraint orchestration_runs_fork_fk foreign key (forked_from_id, workspace_id)
    references missions.orchestration_runs (id, workspace_id) on delete set null (forked_from_id),
  constraint orchestration_runs_report_fk foreign key (workspace_id, report_id)
    references missions.agent_reports (workspace_id, id) on delete set null (report_id),
  constraint orchestration_runs_state_type_ck check (state_type = case
    when state in ('completed', 'failed', 'cancelled') then 'terminal'
    when state in ('paused', 'budget_exceeded') then 'paused'
    when state = 'running' then 'running' else 'pending' end),
  constraint orchestration_runs_ended_ck check ((state_type = 'terminal') = (completed_at is not null))
) with (fillfactor = 70);
create index if not exists ix_orch_runs_ws_created on missions.orchestration_runs (workspace_id, created_at desc);
create index if not exists ix_orch_runs_active on missions.orchestration_runs (workspace_id) where state_type <> 'terminal';
create index if not exists ix_orch_runs_created_by on missions.orchestration_runs (created_by);
create index if not exists orchestration_runs_due_ix on missions.orchestration_runs (run_after) where run_after is not null;
create index if not exists orchestration_runs_account_ix on missions.orchestration_runs (account_id) where account_id is not null;
create index if not exists orchestration_runs_fork_ix on missions.orchestration_runs (forked_from_id) where forked_from_id is not null;
create index if not exists orchestration_runs_agent_ix on missions.orchestration_runs (coordinator_agent_id) where coordinator_agent_id is not null;
create index if not exists orchestration_runs_tags_ix on missions.orchestration_runs using gin (tags);
create index if not exists orchestration_runs_goal_ix on missions.orchestration_runs using gin (to_tsvector('simple', goal));
comment on table missions.orchestration_runs is 'One row is one mission: its goal, its plan, its state and its counters.';
comment on column missions.orchestration_runs.goal is 'The words of the requester; never changed.';
create trigger orchestration_runs_terms_fixed before update of workspace_id, goal, command_id, created_by on missions.orchestration_runs
  for each row when ((new.workspace_id, new.goal, new.command_id, new.created_by)
    is distinct from (old.workspace_id, old.goal, old.command_id, old.created_by))
  execute function concord.refuse_rewrite('the request of a mission');

create table if not exists missions.orchestration_tasks (
  id                 uuid                    not null default gen_random_uuid(),
  run_id             uuid                    not null,
  workspace_id       uuid                    not null,
  sequence_number    missions.ordinal       not null,
  title              varchar(500)            not null,
  description        text,
  task_type          missions.task_type      not null,
  state              missions.task_state     not null default 'pending',
  state_type         missions.state_type     not null default 'pending',
  trigger_rule       missions.trigger_rule   not null default 'all_success',
  agent_id           integer,
  agent_type         missions.agent_type,
  model_override     varchar(255),
  tools_requested    concord.list_json,
  success_criteria   text,
  output_summary     varchar(2000),
  output_ref         varchar(500),
  verifier_score     missions.score,
  verified_by        varchar(255),
  error_message      text,
  attempt_number     missions.ordinal       not null default 1,
  continuation_count missions.turn_count     not null default 0,
  tokens_used        concord.count_from_zero not null default 0,
  cost               missions.cost           not null default 0,
  board_task_id      integer,
  started_at         concord.finite_time,
  completed_at       concord.finite_time,
  duration_ms        bigint,
  version_id         concord.count_from_one  not null default 1,
  created_at         concord.finite_time     not null default now(),
  updated_at         concord.finite_time     not null default now(),
  due_at             concord.finite_time,
  last_heartbeat_at  concord.finite_time,
  spec               concord.object_json     not null,
  remaining          concord.count_from_zero not null,
  command_id         uuid,
  review_command_id  uuid,
  output_checksum    varchar(64),
  checks_passed      missions.turn_count     not null default 0,
  lease_token        uuid,
  lease_until        concord.finite_time,
  worker_id          varchar(255),
  submission         concord.object_json,
  carried_from_id    uuid,
  constraint orchestration_tasks_pk primary key (id),
  constraint orchestration_tasks_workspace_uq unique (id, workspace_id),
  constraint orchestration_tasks_sequence_uq unique (run_id, sequence_number),
  constraint orchestration_tasks_workspace_fk foreign key (workspace_id) references identity.workspaces (id) on delete cascade,
  constraint orchestration_tasks_run_fk foreign key (run_id, workspace_id)
    references missions.orchestration_runs (id, workspace_id) on delete cascade,
  constraint orchestration_tasks_agent_fk foreign key (workspace_id, agent_id)
    references missions.agents (workspace_id, id) on delete set null (agent_id),
  constraint orchestration_tasks_board_fk foreign key (workspace_id, board_task_id)
    references missions.board_tasks (workspace_id, id) on delete set null (board_task_id),
  constraint orchestration_tasks_command_fk foreign key (workspace_id, command_id) references concord.commands (workspace_id, command_id),
  constraint orchestration_tasks_review_fk foreign key (workspace_id, review_command_id) references concord.commands (workspace_id, command_id),
  constraint orchestration_tasks_carried_fk foreign key (carried_from_id, workspace_id)
    references missions.orchestration_tasks (id, workspace_id) on delete set null (carried_from_id),
  constraint orchestration_tasks_lease_ck check ((lease_token is null) = (lease_until is null) and (lease_token is null or worker_id is not null)),
  constraint orchestration_tasks_state_type_ck check (state_type = case
    when state in ('completed', 'failed', 'cancelled', 'skipped') then 'terminal'
    when state in ('verifying', 'awaiting_human') then 'paused'
    when state in ('assigned', 'running', 'continuing') then 'running' else 'pending' end),
  constraint orchestration_tasks_ended_ck check ((state_type = 'terminal') = (completed_at is not null))
) with (fillfactor = 70);
create index if not exists ix_orch_tasks_run on missions.orchestration_tasks (run_id);
create index if not exists ix_orch_tasks_ws_state on missions.orchestration_tasks (workspace_id, state);
create index if not exists ix_orch_tasks_agent on missions.orchestration_tasks (agent_id) where agent_id is not null;
create index if not exists ix_orch_tasks_board on missions.orchestration_tasks (board_task_id) where board_task_id is not null;
create index if not exists ix_orch_tasks_active on missions.orchestration_tasks (state, updated_at) where state_type <> 'terminal';
create index if not exists orchestration_tasks_due_ix on missions.orchestration_tasks (due_at) where due_at is not null and state_type <> 'terminal';
create index if not exists orchestration_tasks_run_state_ix on missions.orchestration_tasks (run_id, state, remaining, command_id)
  where state_type <> 'terminal';
create index if not exists orchestration_tasks_run_order_ix on missions.orchestration_tasks (run_id, state, sequence_number)
  where state_type <> 'terminal';
create index if not exists orchestration_tasks_claim_ix on missions.orchestration_tasks
  (workspace_id, (spec #>> '{run,worker}'), created_at, sequence_number) where state in ('queued', 'awaiting_retry') and spec #>> '{run,worker}' is not null;
create index if not exists orchestration_tasks_command_ix on missions.orchestration_tasks (command_id) where command_id is not null;
create index if not exists orchestration_tasks_review_ix on missions.orchestration_tasks (review_command_id) where review_command_id is not null;
create index if not exists orchestration_tasks_carried_ix on missions.orchestration_tasks (carried_from_id) where carried_from_id is not null;
-- The foreign keys of edges and events look for both columns. Among equal costs Postgres takes the newest index, and on a small table all costs are equal. So this
-- one is the last: a plan that is kept from then would read all tasks of a mission for each edge. The share of missions is fixed for the same reason.
alter table missions.orchestration_tasks add constraint orchestration_tasks_run_uq unique (id, run_id);
alter table missions.orchestration_tasks alter column run_id set (n_distinct = -0.05);
comment on table missions.orchestration_tasks is 'One piece of work of a mission. Each attempt is a command.';
comment on column missions.orchestration_tasks.spec is 'What to run and under which temporary id of the plan; written once.';
comment on column missions.orchestration_tasks.submission is 'What a worker has submitted, until the turn of the mission has settled it.';
comment on column missions.orchestration_tasks.remaining is 'How many upstream ends its rule still waits for. A pending task with none is ready.';
create trigger orchestration_tasks_terms_fixed before update of run_id, workspace_id, spec on missions.orchestration_tasks
  for each row when ((new.run_id, new.workspace_id, new.spec) is distinct from (old.run_id, old.workspace_id, old.spec))
  execute function concord.refuse_rewrite('what a mission task runs');

create table if not exists missions.orchestration_task_dependencies (
  task_id         uuid                     not null,
  depends_on_id   uuid                     not null,
  dependency_type missions.dependency_type not null default 'data',
  created_at      concord.finite_time      not null default now(),
  run_id          uuid                     not null,
  constraint orchestration_task_dependencies_pk primary key (task_id, depends_on_id),
  constraint orchestration_task_dependencies_task_fk foreign key (task_id, run_id)
    references missions.orchestration_tasks (id, run_id) on delete cascade,
  constraint orchestration_task_dependencies_upstream_fk foreign key (depends_on_id, run_id)
    references missions.orchestration_tasks (id, run_id) on delete cascade,
  constraint orchestration_task_dependencies_self_ck check (task_id <> depends_on_id)
);
create index if not exists ix_orch_deps_reverse on missions.orchestration_task_dependencies (depends_on_id);
create index if not exists orchestration_task_dependencies_run_ix on missions.orchestration_task_dependencies (run_id);
comment on table missions.orchestration_task_dependencies is 'task_id waits for depends_on_id. Both are of the same run.';

create table if not exists missions.orchestration_events (
  id         bigserial            not null,
  run_id     uuid                 not null,
  task_id    uuid,
  event_type missions.event_type  not null,
  payload    concord.object_json  not null default '{}',
  actor_type missions.actor_type  not null default 'system',
  actor_id   varchar(255),
  created_at concord.finite_time  not null default now(),
  xid        xid8                 not null default pg_current_xact_id(),
  constraint orchestration_events_pk primary key (id),
  constraint orchestration_events_run_fk foreign key (run_id) references missions.orchestration_runs (id) on delete cascade,
  constraint orchestration_events_task_fk foreign key (task_id, run_id)
    references missions.orchestration_tasks (id, run_id) on delete cascade
);
create index if not exists ix_orch_events_run on missions.orchestration_events (run_id, id);
create index if not exists ix_orch_events_task on missions.orchestration_events (task_id) where task_id is not null;
create index if not exists ix_orch_events_created on missions.orchestration_events using brin (created_at);
create index if not exists ix_orch_events_type on missions.orchestration_events (event_type);
create index if not exists orchestration_events_feed_ix on missions.orchestration_events (xid, id);
comment on table missions.orchestration_events is 'Append-only: what happened to missions and their tasks. No state is rebuilt from it.';
create trigger orchestration_events_append_only before update or delete or truncate on missions.orchestration_events
  for each statement execute function concord.refuse_change();
alter table missions.orchestration_events enable always trigger orchestration_events_append_only;

create table if not exists missions.orchestration_events_archive (
  id         bigint              not null,
  run_id     uuid                not null,
  task_id    uuid,
  event_type missions.event_type not null,
  payload    concord.object_json not null,
  actor_type missions.actor_type not null,
  actor_id   varchar(255),
  created_at concord.finite_time not null,
  constraint orchestration_events_archive_pk primary key (id)
);
create index if not exists orchestration_events_archive_run_ix on missions.orchestration_events_archive (run_id);
create index if not exists orchestration_events_archive_created_ix on missions.orchestration_events_archive (created_at);
comment on table missions.orchestration_events_archive is 'Events that retention has moved out of orchestration_events. It has no foreign keys.';

alter table missions.agent_reports add column if not exists orchestration_task_id uuid;
alter table missions.agent_reports add constraint agent_reports_task_fk foreign key (workspace_id, orchestration_task_id)
  references missions.orchestration_tasks (workspace_id, id) on delete set null (orchestration_task_id);

alter table missions.orchestration_runs enable row level security, force row level security;
alter table missions.orchestration_tasks enable row level security, force row level security;
alter table missions.orchestration_task_dependencies enable row level security, force row level security;
alter table missions.orchestration_events enable row level security, force row level security;
alter table missions.orchestration_events_archive enable row level security, force row level security;
create policy orchestration_runs_engine on missions.orchestration_runs to concord_engine using (true) with check (true);
create policy orchestration_tasks_engine on missions.orchestration_tasks to concord_engine using (true) with check (true);
create policy orchestration_task_dependencies_engine on missions.orchestration_task_dependencies to concord_engine using (true) with check (true);
create policy orchestration_events_engine on missions.orchestration_events to concord_engine using (true) with check (true);
create policy orchestration_events_archive_engine on missions.orchestration_events_archive to concord_engine using (true) with check (true);
create policy orchestration_runs_app on missions.orchestration_runs to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
create policy orchestration_tasks_app on missions.orchestration_tasks to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
-- Edges and events have no workspace of their own: a row is visible where its mission is.
create policy orchestration_task_dependencies_app on missions.orchestration_task_dependencies to concord_app
  using (exists (select from missions.orchestration_runs as r where r.id = run_id))
  with check (exists (select from missions.orchestration_runs as r where r.id = run_id));
create policy orchestration_events_app on missions.orchestration_events to concord_app
  using (exists (select from missions.orchestration_runs as r where r.id = run_id))
  with check (exists (select from missions.orchestration_runs as r where r.id = run_id));
create policy orchestration_events_archive_app on missions.orchestration_events_archive to concord_app
  using (exists (select from missions.orchestration_runs as r where r.id = run_id));
grant select, insert, update on missions.orchestration_runs to concord_engine, concord_app;
grant select, insert, update on missions.orchestration_tasks to concord_engine, concord_app;
grant select, insert on missions.orchestration_task_dependencies to concord_engine, concord_app;
grant select on missions.orchestration_events to concord_engine, concord_app;
grant insert (run_id, task_id, event_type, payload, actor_type, actor_id, created_at) on missions.orchestration_events to concord_engine, concord_app;
grant usage on sequence missions.orchestration_events_id_seq to concord_engine, concord_app;
grant select on missions.orchestration_events_archive to concord_engine, concord_app;

-- A smaller id may commit after a larger one. Below the oldest transaction that runs nothing can appear any more, so a reader that stores (xid, seq) of its
-- last event gets each event once.
create view missions.event_feed with (security_invoker = true) as
select r.workspace_id, e.xid, e.id as seq, e.run_id, e.task_id, e.event_type, e.payload, e.actor_type, e.actor_id, e.created_at
from missions.orchestration_events as e join missions.orchestration_runs as r on r.id = e.run_id
where e.xid < pg_snapshot_xmin(pg_current_snapshot());
comment on view missions.event_feed is 'Events that are final. Read those after (xid, seq) of the last one, in that order. Archived events are not in it.';
grant select on missions.event_feed to concord_engine, concord_app;

create view missions.task_results with (security_invoker = true) as
select t.workspace_id, t.run_id, t.id as task_id, t.task_type, t.state, l.assigned_at, t.completed_at, l.retries
from missions.orchestration_tasks as t cross join lateral (
  select min(e.created_at) filter (where e.event_type = 'task_assigned') as assigned_at, count(*) filter (where e.event_type = 'task_retrying') as retries
  from missions.orchestration_events as e where e.task_id = t.id
) as l
where t.state in ('completed', 'failed') and t.carried_from_id is null;
comment on view missions.task_results is 'Tasks that completed or failed, with the time of their first assignment and the number of their retries.';
grant select on missions.task_results to concord_engine, concord_app;

-- after commit
create unique index concurrently uq_board_tasks_orchestration_run on missions.board_tasks (source_id) where source_type = 'orchestration';
create unique index concurrently uq_board_tasks_orchestration_task on missions.board_tasks (source_id) where source_type = 'orchestration_task';
create index concurrently ix_agent_reports_orch_task on missions.agent_reports (orchestration_task_id) where orchestration_task_id is not null;

-- down
drop index if exists missions.uq_board_tasks_orchestration_run;
drop index if exists missions.uq_board_tasks_orchestration_task;
drop index if exists missions.ix_agent_reports_orch_task;
alter table missions.agent_reports drop column if exists orchestration_task_id;
drop view if exists missions.task_results;
drop view if exists missions.event_feed;
drop table if exists missions.orchestration_events_archive;
drop table if exists missions.orchestration_events;
drop table if exists missions.orchestration_task_dependencies;
drop table if exists missions.orchestration_tasks;
drop table if exists missions.orchestration_runs;
drop domain missions.state_type, missions.run_state, missions.task_state, missions.task_type, missions.trigger_rule, missions.agent_type,
  missions.dependency_type, missions.event_type, missions.actor_type, missions.cost, missions.score, missions.ordinal, missions.turn_count;
