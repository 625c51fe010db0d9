-- 0034 agent_invocations: a child agent exists only by the request of its parent, and a swarm keeps what it was asked, planned and decided.
-- Why: a run that another agent started must be traceable to who delegated what, within which limits. The key from agent_runs to its invocation is
--   checked at the commit, so a child without an invocation cannot exist. The definition of a swarm is fixed with its row; its plan and its join are
--   written once, so that a crash between two turns asks no planner and no join a second time.
-- Additions to the printed table: workspace_id, command_id, context_scope, max_steps, spawn_depth. On swarm_runs: definition, plan, joined, end_reason,
--   deadline_at, max_parallel. On agent_runs: invocation_id.
-- Indexes: one per foreign key that is looked up from its other side; agent_invocations_child_uq: one invocation per child.
-- Locks: short exclusive locks on swarm_runs and agent_runs, and one pass over agent_runs for the new rule. Reverse: drop what was added.
create domain concord.agent_invocation_status as text constraint agent_invocation_status_ck check (value in (
  'created', 'running', 'succeeded', 'failed', 'cancelled', 'expired'));
create domain concord.invocation_type as text constraint invocation_type_ck check (value in ('spawn', 'delegate', 'review', 'evaluate'));
create domain concord.swarm_end_reason as text constraint swarm_end_reason_ck check (value in (
  'joined', 'human_cancelled', 'max_agents', 'max_depth', 'max_total_steps', 'max_cost_units', 'deadline_passed', 'spawn_denied', 'child_failed',
  'plan_refused', 'stopped'));

create table concord.agent_invocations (
  invocation_id       uuid                            not null,
  swarm_run_id        uuid                            not null,
  parent_agent_run_id uuid                            not null,
  child_agent_run_id  uuid                            not null,
  invocation_type     concord.invocation_type         not null,
  delegated_goal      text                            not null,
  constraints         concord.object_json             not null default '{}',
  allowed_tools       concord.list_json               not null default '[]',
  allowed_connectors  concord.list_json               not null default '[]',
  memory_scope        concord.object_json             not null default '{}',
  status              concord.agent_invocation_status not null default 'created',
  created_at          concord.finite_time             not null default now(),
  completed_at        concord.finite_time,
  workspace_id        uuid                            not null,
  command_id          uuid                            not null,
  context_scope       concord.object_json             not null default '{}',
  max_steps           concord.count_from_one          not null,
  spawn_depth         concord.count_from_one          not null,
  constraint agent_invocations_pk primary key (invocation_id),
  constraint agent_invocations_child_uq unique (workspace_id, invocation_id, child_agent_run_id),
  constraint agent_invocations_command_fk foreign key (workspace_id, command_id) references concord.commands (workspace_id, command_id),
  constraint agent_invocations_swarm_run_fk foreign key (workspace_id, swarm_run_id)
    references concord.swarm_runs (workspace_id, swarm_run_id),
  constraint agent_invocations_parent_fk foreign key (workspace_id, parent_agent_run_id)
    references concord.agent_runs (workspace_id, agent_run_id),
  constraint agent_invocations_child_fk foreign key (workspace_id, child_agent_run_id)
    references concord.agent_runs (workspace_id, agent_run_id),
  constraint agent_invocations_other_ck check (parent_agent_run_id <> child_agent_run_id),
  constraint agent_invocations_ended_ck check (
    (status = any ('{succeeded,failed,cancelled,expired}')) = (completed_at is not null))
) with (fillfactor = 80);
create index agent_invocations_swarm_run_ix on concord.agent_invocations (swarm_run_id);
create index agent_invocations_parent_ix on concord.agent_invocations (parent_agent_run_id);
create unique index agent_invocations_child_ix on concord.agent_invocations (child_agent_run_id);
create index agent_invocations_command_ix on concord.agent_invocations (command_id);
comment on table concord.agent_invocations is 'What a parent agent asked of a child: goal, limits and scopes. One row per child, written with it.';
create trigger agent_invocations_terms_fixed before update of swarm_run_id, parent_agent_run_id, child_agent_run_id, invocation_type, delegated_goal,
    constraints, allowed_tools, allowed_connectors, memory_scope, workspace_id, command_id, context_scope, max_steps, spawn_depth on concord.agent_invocations
  for each row execute function concord.refuse_rewrite('the terms of an invocation');

alter table concord.agent_runs
  add column invocation_id uuid,
  add constraint agent_runs_invocation_ck check ((invocation_id is null) = (parent_agent_run_id is null)),
  add constraint agent_runs_swarm_ck check (parent_agent_run_id is null or swarm_run_id is not null),
  add constraint agent_runs_invocation_fk foreign key (workspace_id, invocation_id, agent_run_id)
    references concord.agent_invocations (workspace_id, invocation_id, child_agent_run_id)
    deferrable initially deferred;
create trigger agent_runs_invocation_fixed before update of invocation_id on concord.agent_runs
  for each row when (new.invocation_id is distinct from old.invocation_id) execute function concord.refuse_rewrite('invocation_id');
comment on column concord.agent_runs.invocation_id is 'The request of the parent; null for a run that a command started.';

alter table concord.swarm_runs
  add column definition        concord.object_json not null default '{}',
  add column plan              concord.list_json,
  add column joined            concord.object_json,
  add column end_reason        concord.swarm_end_reason,
  add column deadline_at       concord.finite_time,
  add column max_parallel      concord.count_from_one;
create unique index swarm_runs_living_uq on concord.swarm_runs (command_id) where completed_at is null and cancelled_at is null;
comment on column concord.swarm_runs.definition is 'The swarm as it was declared: agents, settings of the join, runtimes. Frozen with the row.';
comment on column concord.swarm_runs.plan is 'The agents to start, as the planner returned them; null until then.';
comment on column concord.swarm_runs.joined is 'The five fields of the join and the runs that lost.';
comment on column concord.swarm_runs.end_reason is 'Why it ends. Set before the end: its agents are stopped in between.';
create trigger swarm_runs_limits_fixed before update of command_id, workspace_id, objective, execution_mode, join_strategy, max_agents, max_depth,
    max_total_steps, max_cost_units, definition, deadline_at, max_parallel on concord.swarm_runs
  for each row when (
    (new.command_id, new.workspace_id, new.objective, new.execution_mode, new.join_strategy, new.max_agents, new.max_depth, new.max_total_steps,
     new.max_cost_units, new.definition, new.deadline_at, new.max_parallel)
    is distinct from
    (old.command_id, old.workspace_id, old.objective, old.execution_mode, old.join_strategy, old.max_agents, old.max_depth, old.max_total_steps,
     old.max_cost_units, old.definition, old.deadline_at, old.max_parallel))
  execute function concord.refuse_rewrite('a limit of a swarm');
create trigger swarm_runs_written_once before update of plan, joined, end_reason, coordinator_agent_run_id on concord.swarm_runs
  for each row when (
    (old.plan is not null and new.plan is distinct from old.plan)
    or (old.joined is not null and new.joined is distinct from old.joined)
    or (old.end_reason is not null and new.end_reason is distinct from old.end_reason)
    or (old.coordinator_agent_run_id is not null and new.coordinator_agent_run_id is distinct from old.coordinator_agent_run_id))
  execute function concord.refuse_rewrite('what a swarm decided');

alter table concord.agent_invocations enable row level security, force row level security;
create policy agent_invocations_engine on concord.agent_invocations to concord_engine using (true) with check (true);
create policy agent_invocations_app on concord.agent_invocations to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select, insert, update on concord.agent_invocations to concord_engine, concord_app;

-- down
drop trigger swarm_runs_written_once on concord.swarm_runs;
drop trigger swarm_runs_limits_fixed on concord.swarm_runs;
drop index concord.swarm_runs_living_uq;
alter table concord.swarm_runs drop column definition, drop column plan, drop column joined, drop column end_reason, drop column deadline_at,
  drop column max_parallel;
drop trigger agent_runs_invocation_fixed on concord.agent_runs;
alter table concord.agent_runs drop constraint agent_runs_invocation_fk, drop constraint agent_runs_invocation_ck,
  drop constraint agent_runs_swarm_ck, drop column invocation_id;
drop table concord.agent_invocations;
drop domain concord.agent_invocation_status, concord.invocation_type, concord.swarm_end_reason;
