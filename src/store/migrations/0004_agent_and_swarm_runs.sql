-- 0004 agent_and_swarm_runs: who works on a command, within which limits.
-- Why: events point at both, so they come before the events; authority and limits of a run are rows, fixed at spawn.
-- Additions to the printed tables: workspace_id, run_after, turn_token, turn_until (a run is driven in turns like a command).
-- Model and runtime settings are opaque JSON: the schema knows no agent framework.
-- Locks: none (new tables). Reverse: drop both.
create domain concord.swarm_run_status as text constraint swarm_run_status_ck check (value in (
  'created', 'running', 'joining', 'succeeded', 'failed', 'cancelled', 'partially_succeeded', 'expired',
  'waiting_for_approval', 'cancelling'));
create domain concord.execution_mode as text constraint execution_mode_ck check (value in (
  'sequential', 'parallel', 'competitive', 'review_driven', 'hierarchical'));
create domain concord.join_strategy as text constraint join_strategy_ck check (value in (
  'all_success', 'first_success', 'quorum', 'coordinator_synthesis', 'evaluator_selection', 'human_review', 'best_of_n',
  'map_reduce', 'consensus', 'ranked_review'));
create domain concord.agent_run_status as text constraint agent_run_status_ck check (value in (
  'running', 'succeeded', 'failed', 'cancelled', 'expired', 'created', 'queued', 'waiting_for_tool',
  'waiting_for_approval', 'waiting_for_input', 'waiting_for_children', 'cancelling'));

create table concord.swarm_runs (
  swarm_run_id             uuid                     not null,
  command_id               uuid                     not null,
  workflow_run_id          uuid,
  coordinator_agent_run_id uuid,
  status                   concord.swarm_run_status not null,
  objective                text                     not null,
  execution_mode           concord.execution_mode   not null,
  join_strategy            concord.join_strategy    not null,
  max_agents               concord.count_from_one   not null default 5,
  max_depth                concord.count_from_zero  not null default 2,
  max_total_steps          concord.count_from_one   not null default 100,
  max_cost_units           concord.cost_limit,
  metadata                 concord.object_json      not null default '{}',
  created_at               concord.finite_time      not null default now(),
  started_at               concord.finite_time,
  completed_at             concord.finite_time,
  cancelled_at             concord.finite_time,
  workspace_id             uuid                     not null,
  run_after                concord.finite_time               default now(),
  turn_token               uuid,
  turn_until               concord.finite_time,
  constraint swarm_runs_pk primary key (swarm_run_id),
  constraint swarm_runs_workspace_uq unique (workspace_id, swarm_run_id),
  constraint swarm_runs_command_fk foreign key (workspace_id, command_id) references concord.commands (workspace_id, command_id),
  constraint swarm_runs_ended_ck check (
    (status = any ('{succeeded,failed,cancelled,partially_succeeded,expired}'))
    = (completed_at is not null or cancelled_at is not null)),
  constraint swarm_runs_turn_ck check ((turn_token is null) = (turn_until is null))
) with (fillfactor = 80);
create index idx_swarm_runs_command_id on concord.swarm_runs (command_id);
create index idx_swarm_runs_status on concord.swarm_runs (status, workspace_id);
create index swarm_runs_due_ix on concord.swarm_runs (run_after) where completed_at is null and cancelled_at is null;
comment on column concord.swarm_runs.workflow_run_id is 'Instance of a registered workflow type, null until there are any; never an id of the runtime.';
comment on column concord.swarm_runs.run_after is 'When the next turn is due; null: nothing is due.';

create table concord.agent_runs (
  agent_run_id        uuid                     not null,
  command_id          uuid                     not null,
  swarm_run_id        uuid,
  parent_agent_run_id uuid,
  agent_name          text                     not null,
  agent_role          text                     not null,
  agent_version       text,
  status              concord.agent_run_status not null,
  goal                text                     not null,
  allowed_tools       concord.list_json       not null default '[]',
  allowed_connectors  concord.list_json       not null default '[]',
  memory_scope        jsonb                    not null default '{}',
  context_scope       jsonb                    not null default '{}',
  max_steps           concord.count_from_one   not null default 20,
  step_count          concord.count_from_zero  not null default 0,
  spawn_depth         concord.count_from_zero  not null default 0,
  model_config        jsonb                    not null default '{}',
  runtime_config      jsonb                    not null default '{}',
  metadata            concord.object_json      not null default '{}',
  created_at          concord.finite_time      not null default now(),
  started_at          concord.finite_time,
  completed_at        concord.finite_time,
  cancelled_at        concord.finite_time,
  workspace_id        uuid                     not null,
  run_after           concord.finite_time               default now(),
  turn_token          uuid,
  turn_until          concord.finite_time,
  constraint agent_runs_pk primary key (agent_run_id),
  constraint agent_runs_workspace_uq unique (workspace_id, agent_run_id),
  constraint agent_runs_command_fk foreign key (workspace_id, command_id) references concord.commands (workspace_id, command_id),
  constraint agent_runs_swarm_run_fk foreign key (workspace_id, swarm_run_id)
    references concord.swarm_runs (workspace_id, swarm_run_id),
  constraint agent_runs_parent_fk foreign key (workspace_id, parent_agent_run_id)
    references concord.agent_runs (workspace_id, agent_run_id),
  -- The step limit holds even against a driver that forgot to look.
  constraint agent_runs_steps_ck check (step_count <= max_steps),
  constraint agent_runs_depth_ck check ((parent_agent_run_id is null) = (spawn_depth = 0)),
  constraint agent_runs_ended_ck check (
    (status = any ('{succeeded,failed,cancelled,expired}')) = (completed_at is not null or cancelled_at is not null)),
  constraint agent_runs_turn_ck check ((turn_token is null) = (turn_until is null))
) with (fillfactor = 70);
create index idx_agent_runs_swarm_run_id on concord.agent_runs (swarm_run_id);
create index idx_agent_runs_parent_agent_run_id on concord.agent_runs (parent_agent_run_id);
create index idx_agent_runs_status on concord.agent_runs (status, workspace_id);
create index agent_runs_command_ix on concord.agent_runs (command_id);
create index agent_runs_due_ix on concord.agent_runs (run_after) where completed_at is null and cancelled_at is null;
comment on column concord.agent_runs.run_after is 'When the next turn is due; null: nothing is due.';

alter table concord.swarm_runs add constraint swarm_runs_coordinator_fk foreign key (workspace_id, coordinator_agent_run_id)
  references concord.agent_runs (workspace_id, agent_run_id);

alter table concord.swarm_runs enable row level security, force row level security;
alter table concord.agent_runs enable row level security, force row level security;
create policy swarm_runs_engine on concord.swarm_runs to concord_engine using (true) with check (true);
create policy agent_runs_engine on concord.agent_runs to concord_engine using (true) with check (true);
create policy swarm_runs_app on concord.swarm_runs to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
create policy agent_runs_app on concord.agent_runs to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select, insert, update on concord.swarm_runs, concord.agent_runs to concord_engine, concord_app;

-- down
alter table concord.swarm_runs drop constraint swarm_runs_coordinator_fk;
drop table concord.agent_runs;
drop table concord.swarm_runs;
drop domain concord.swarm_run_status, concord.execution_mode, concord.join_strategy, concord.agent_run_status;
