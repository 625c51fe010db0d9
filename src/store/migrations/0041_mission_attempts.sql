-- 0041 mission_attempts: what a task remembers of its attempts, and views about how tasks and missions ended.
-- Why: an attempt has a time limit of its own, so its start is stored. A claim that nobody starts is offered again a limited number of times. Why the last attempt
--   failed decides what the next one is told. A submission that is repeated after its turn gets its first answer.
-- Additions to tasks: returns (how often the attempt was claimed and not started), attempt_started_at, failure_type (of the last attempt), receipt (which submission was accepted last).
-- Locks: short, on orchestration_tasks; the columns need no rewrite. Reverse: drop what was added.
create domain missions.failure_type as varchar(20) constraint failure_type_ck check (value in ('infrastructure', 'quality'));
alter table missions.orchestration_tasks
  add column if not exists returns missions.turn_count not null default 0,
  add column if not exists attempt_started_at concord.finite_time,
  add column if not exists failure_type missions.failure_type,
  add column if not exists receipt concord.object_json;
comment on column missions.orchestration_tasks.returns is 'How often this attempt was claimed and not started.';
comment on column missions.orchestration_tasks.receipt is 'The last submission that was accepted: its lease, attempt and digest. The same one again gets the same answer.';

create or replace view missions.task_results with (security_invoker = true) as
select t.workspace_id, t.run_id, t.id as task_id, t.task_type, t.state, l.assigned_at, t.completed_at, l.retries,
  coalesce(a.name, t.spec #>> '{run,agent}', t.spec #>> '{run,task}', 'worker:' || (t.spec #>> '{run,worker}')) as agent, t.model_override as model, t.cost,
  t.verifier_score as score, l.human, (select count(*) from missions.orchestration_task_dependencies as d where d.depends_on_id = t.id) as blocks
from missions.orchestration_tasks as t left join missions.agents as a on a.id = t.agent_id cross join lateral (
  select min(e.created_at) filter (where e.event_type = 'task_assigned') as assigned_at, count(*) filter (where e.event_type = 'task_retrying') as retries,
    (array_agg(substr(e.event_type, 12) order by e.id desc) filter (where e.event_type in ('task_human_approved', 'task_human_rejected')))[1] as human
  from missions.orchestration_events as e where e.task_id = t.id
) as l
where t.state in ('completed', 'failed') and t.carried_from_id is null;
comment on view missions.task_results is 'Tasks that completed or failed: first assignment, retries, who did it with which model, cost, score, the last decision of a person, and how many tasks wait for it.';

create view missions.task_failures with (security_invoker = true) as
select t.workspace_id, e.run_id, e.task_id, t.task_type, e.event_type,
  coalesce(a.name, t.spec #>> '{run,agent}', t.spec #>> '{run,task}', 'worker:' || (t.spec #>> '{run,worker}')) as agent,
  coalesce(e.payload->>'attempt_number', e.payload->>'total_attempts')::int as attempt, coalesce(e.payload->>'error_message', e.payload->>'reason') as reason,
  case e.event_type when 'task_failed' then 'quality' else e.payload->>'failure_type' end as failure_type,
  coalesce((e.payload->>'final')::boolean, true) as is_final, e.created_at
from missions.orchestration_events as e join missions.orchestration_tasks as t on t.id = e.task_id
  left join missions.agents as a on a.id = coalesce((e.payload->>'agent_id')::int, t.agent_id)
where e.event_type in ('task_failed', 'task_crashed');
comment on view missions.task_failures is 'Each failure of an attempt, with who made it, why, and whether it ended the task.';
grant select on missions.task_failures to concord_engine, concord_app;

create view missions.mission_results with (security_invoker = true) as
select r.workspace_id, r.id as run_id, r.state, (r.plan->>'estimated_cost')::numeric as estimated_cost, r.total_cost, r.started_at, r.completed_at
from missions.orchestration_runs as r where r.state_type = 'terminal';
comment on view missions.mission_results is 'Missions that ended, with what their plan said that they would cost.';
grant select on missions.mission_results to concord_engine, concord_app;

-- down
drop view if exists missions.mission_results;
drop view if exists missions.task_failures;
drop view if exists missions.task_results;
create view missions.task_results with (security_invoker = true) as
select t.workspace_id, t.run_id, t.id as task_id, t.task_type, t.state, l.assigned_at, t.completed_at, l.retries
from missions.orchestration_tasks as t cross join lateral (
  select min(e.created_at) filter (where e.event_type = 'task_assigned') as assigned_at, count(*) filter (where e.event_type = 'task_retrying') as retries
  from missions.orchestration_events as e where e.task_id = t.id
) as l
where t.state in ('completed', 'failed') and t.carried_from_id is null;
comment on view missions.task_results is 'Tasks that completed or failed, with the time of their first assignment and the number of their retries.';
grant select on missions.task_results to concord_engine, concord_app;
alter table missions.orchestration_tasks drop column if exists returns, drop column if exists attempt_started_at, drop column if exists failure_type, drop column if exists receipt;
drop domain missions.failure_type;
