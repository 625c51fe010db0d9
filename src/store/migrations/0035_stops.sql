-- 0035 stops: a person stops agents, and nothing of theirs begins until the stop is lifted.
-- Why: the statement that begins a command of an agent, an effect of such a command or a call for it asks `may_agent_act`. The function takes a lock of the
--   workspace, shared, and then reads the stops with a snapshot of its own. A new stop takes the same lock alone. So a stop waits for everything that is
--   just beginning, and what begins after its commit sees it. Statements for commands without an agent do not call the function.
-- A stop covers everything (`all`), an agent by its name, a run, or a swarm; of a run also its children, at any depth.
-- Rows are kept: who stopped what, why, since when, and who lifted it. The command that stops and the one that lifts are named.
-- Index: stops_open_ix for the stops of a workspace that are in force. The table is ours. Locks: none on existing rows. Reverse: drop it.
create domain concord.stop_scope as text constraint stop_scope_ck check (value in ('all', 'agent', 'run', 'swarm'));

create table concord.stops (
  stop_id         uuid                not null,
  workspace_id    uuid                not null,
  command_id      uuid                not null,
  scope           concord.stop_scope  not null,
  target          concord.filled_text,
  ends_runs       boolean             not null,
  reason          concord.filled_text not null,
  stopped_by      concord.filled_text not null,
  created_at      concord.finite_time not null,
  lifted_at       concord.finite_time,
  lifted_by       concord.filled_text,
  lift_reason     concord.filled_text,
  lift_command_id uuid,
  constraint stops_pk primary key (stop_id, workspace_id),
  constraint stops_command_fk foreign key (workspace_id, command_id) references concord.commands (workspace_id, command_id),
  constraint stops_lift_command_fk foreign key (workspace_id, lift_command_id) references concord.commands (workspace_id, command_id),
  constraint stops_target_ck check ((scope = 'all') = (target is null)),
  constraint stops_lifted_ck check (num_nulls(lifted_at, lifted_by, lift_reason, lift_command_id) in (0, 4))
);
create index stops_open_ix on concord.stops (workspace_id) where lifted_at is null;
comment on table concord.stops is 'Stops of agents, in force until they are lifted.';
comment on column concord.stops.target is 'The name of the agent, or the id of the run or swarm. Null: everything.';
comment on column concord.stops.ends_runs is 'Runs under way end. Otherwise they wait and go on when the stop is lifted.';
alter table concord.stops enable row level security, force row level security;
create policy stops_engine on concord.stops to concord_engine using (true) with check (true);
create policy stops_app on concord.stops to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select, insert, update on concord.stops to concord_engine;
grant select on concord.stops to concord_app;

create function concord.stop_lock(of_workspace uuid) returns bigint
  language sql immutable return hashtextextended('concord.stops:' || of_workspace::text, 0);

create function concord.lock_stops() returns trigger
  language plpgsql as $$
begin
  perform pg_advisory_xact_lock(concord.stop_lock(new.workspace_id));
  return new;
end
$$;
create trigger stops_locked before insert on concord.stops for each row execute function concord.lock_stops();
create trigger stops_fixed before update of stop_id, workspace_id, command_id, scope, target, ends_runs, reason, stopped_by, created_at on concord.stops
  for each row execute function concord.refuse_rewrite('a stop');
create trigger stops_lifted_once before update on concord.stops
  for each row when (old.lifted_at is not null) execute function concord.refuse_rewrite('a lifted stop');

-- In plpgsql, because a function in SQL becomes part of the statement that calls it: its start took 0.1 ms in every step of a run, also where no stop is in force.
create function concord.find_stops(of_workspace uuid, of_agent text, of_run uuid) returns setof concord.stops
  language plpgsql stable as $$
begin
  return query
  with recursive chain as (
    select r.agent_run_id, r.parent_agent_run_id, r.swarm_run_id, r.agent_name from concord.agent_runs r
     where r.workspace_id = of_workspace and r.agent_run_id = of_run
    union all
    select p.* from chain c cross join lateral (
      select r.agent_run_id, r.parent_agent_run_id, r.swarm_run_id, r.agent_name from concord.agent_runs r
       where r.workspace_id = of_workspace and r.agent_run_id = c.parent_agent_run_id limit 1) as p
  )
  select s.* from concord.stops s
   where s.workspace_id = of_workspace and s.lifted_at is null and case s.scope
     when 'agent' then s.target = of_agent or exists (select from chain where chain.agent_name = s.target)
     when 'run' then exists (select from chain where chain.agent_run_id::text = s.target)
     when 'swarm' then exists (select from chain where chain.swarm_run_id::text = s.target)
     else true end
   order by s.created_at;
end
$$;
comment on function concord.find_stops is 'The stops in force that cover an agent by its name, or a run; the oldest first.';

create function concord.may_agent_act(of_workspace uuid, of_agent text, of_run uuid) returns boolean
  language plpgsql volatile as $$
begin
  perform pg_advisory_xact_lock_shared(concord.stop_lock(of_workspace));
  -- A statement of its own has a snapshot of its own: it sees every stop that was committed before the lock was granted.
  -- Most workspaces have none, and this look costs a quarter of the whole question (23 µs of 90).
  if not exists (select from concord.stops s where s.workspace_id = of_workspace and s.lifted_at is null) then
    return true;
  end if;
  return not exists (select from concord.find_stops(of_workspace, of_agent, of_run));
end
$$;
comment on function concord.may_agent_act is 'Whether no stop covers the agent. A stop that comes later waits for the end of this transaction.';

-- down
drop function concord.may_agent_act(uuid, text, uuid);
drop function concord.find_stops(uuid, text, uuid);
drop table concord.stops;
drop function concord.lock_stops();
drop function concord.stop_lock(uuid);
drop domain concord.stop_scope;
