-- 0019 journal: one row for all events of one commit; domain_events becomes a view of it.
-- Why: a command that is done at once has nine events. As nine rows they cost 39 index entries, 27 key checks and a third of the time of its
--   commit; as one row they cost three entries and one check. Readers keep domain_events with the columns of 0005.
-- entry_id: the id of the first event; that of the next one is one higher in the last 16 bits. Retried writes meet themselves at the key.
-- seq: grows by 65,536 per row, the most events that a row can have, and an event has seq + place. So seq orders single events as before, and cursors from before stay valid.
-- events: json and not jsonb, since it is written once and read in order; jsonb costs a third more of the time of a commit. Of an event:
--   type, purpose (left out: event), actor, payload, the measures of an agent step, and its id if it was written before this migration.
-- Indexes, each paid for by every commit: pk; command: the history of a command in order; workspace: the feed and the audit of a workspace in
--   order of commit; agent: partial, keeps steps unique within a run; incidents: partial, what operators must hear of.
-- Append-only as in 0005: the roles of the service hold insert and select, not on seq and xid; the trigger stops the owner too.
-- Rows up to 8 KB stay whole in their page: moving 5 KB into a side table costs three more index entries.
-- Locks: domain_events, until all its rows are copied (about 20 s for a million events). Reverse: the rows are copied back, with their ids.
create function concord.are_events(events json, step_index integer) returns boolean
  language sql immutable parallel safe
  return (select coalesce(bool_and(coalesce(btrim(e.type) <> '' and btrim(e.actor) <> '' and json_typeof(e.payload) = 'object' and case
      when e.purpose = 'agent_step' then step_index is not null and coalesce(e.latency_ms, 0) >= 0
        and coalesce(e.cost_units, 0) >= 0 and coalesce(e.cost_units, 0) < 'Infinity'
      else coalesce(e.purpose, 'event') in ('event', 'audit') and step_index is null
        and num_nulls(e.tool_name, e.latency_ms, e.token_usage, e.cost_units) = 4 end, false)), false) and count(*) <= 65536
    from json_to_recordset(events) as e(id uuid, type text, actor text, payload json, purpose text,
      tool_name text, latency_ms integer, token_usage json, cost_units numeric));

create table concord.journal (
  entry_id     uuid                not null,
  workspace_id uuid                not null,
  command_id   uuid,
  agent_run_id uuid,
  swarm_run_id uuid,
  step_index   concord.count_from_zero,
  trace_id     concord.filled_text not null,
  created_at   concord.finite_time not null default now(),
  seq          bigint              not null generated always as identity (increment by 65536),
  xid          xid8                not null default pg_current_xact_id(),
  events       json                not null,
  constraint journal_pk primary key (entry_id),
  constraint journal_command_fk foreign key (workspace_id, command_id) references concord.commands (workspace_id, command_id),
  constraint journal_agent_run_fk foreign key (workspace_id, agent_run_id) references concord.agent_runs (workspace_id, agent_run_id),
  constraint journal_swarm_run_fk foreign key (workspace_id, swarm_run_id) references concord.swarm_runs (workspace_id, swarm_run_id),
  constraint journal_events_ck check (concord.are_events(events, step_index)),
  constraint journal_agent_step_ck check (step_index is null or agent_run_id is not null)
) with (toast_tuple_target = 8160);

-- The owner of the table may not be a member of the role that sees all rows.
alter table concord.domain_events no force row level security;
insert into concord.journal (entry_id, workspace_id, command_id, agent_run_id, swarm_run_id, step_index, trace_id, created_at, seq, xid, events)
  overriding system value
select (array_agg(e.event_id order by e.seq))[1],
  e.workspace_id, e.command_id, e.agent_run_id, e.swarm_run_id, e.step_index, e.trace_id, e.created_at, min(e.seq), e.xid,
  json_agg(case when e.purpose = 'agent_step'
    then json_build_object('id', e.event_id, 'type', e.event_type, 'purpose', e.purpose, 'actor', e.actor, 'payload', e.payload,
      'tool_name', e.tool_name, 'latency_ms', e.latency_ms, 'token_usage', e.token_usage, 'cost_units', e.cost_units)
    else json_build_object('id', e.event_id, 'type', e.event_type, 'purpose', e.purpose, 'actor', e.actor, 'payload', e.payload) end
    order by e.seq)
from (
  -- Neighbours of one commit about one thing are one row; a gap in seq begins the next, so that every event keeps its number.
  select r.*, r.seq - r.n as run, r.n / 65000 as part
  from (select d.*, row_number() over (
      partition by d.xid, d.workspace_id, d.command_id, d.agent_run_id, d.swarm_run_id, d.step_index, d.trace_id, d.created_at
      order by d.seq) as n
    from concord.domain_events as d) as r
) as e
group by e.xid, e.workspace_id, e.command_id, e.agent_run_id, e.swarm_run_id, e.step_index, e.trace_id, e.created_at, e.run, e.part
order by min(e.seq);
select setval(pg_get_serial_sequence('concord.journal', 'seq'), (select coalesce(max(seq), 0) + 65536 from concord.domain_events));

do $check$
begin
  if (select count(*) from concord.domain_events) <> (select coalesce(sum(json_array_length(events)), 0) from concord.journal) then
    raise exception 'not every event was copied';
  end if;
end
$check$;

create index journal_command_ix on concord.journal (command_id, seq);
create index journal_workspace_ix on concord.journal (workspace_id, xid, seq);
create unique index journal_agent_ix on concord.journal (agent_run_id, step_index) where agent_run_id is not null;
create index journal_incidents_ix on concord.journal (created_at) where strpos(events::text, '"compensation_drift"') > 0;

drop table concord.domain_events;
-- A plain query as body: the planner puts it in the place of the call.
create function concord.unpack(entry_id uuid, events json) returns table (event_id uuid, place integer, purpose concord.event_purpose,
    event_type text, payload jsonb, actor text, tool_name text, latency_ms integer, token_usage jsonb, cost_units numeric)
  language sql immutable parallel safe as
$unpack$
  select coalesce(e.id, overlay(unpack.entry_id::text placing
      lpad(to_hex((('x' || right(unpack.entry_id::text, 4))::bit(16)::integer + e.n - 1) & 65535), 4, '0') from 33)::uuid), (e.n - 1)::integer,
    coalesce(e.purpose, 'event')::concord.event_purpose, e.type, e.payload, e.actor, e.tool_name, e.latency_ms, e.token_usage, e.cost_units
  from rows from (json_to_recordset(unpack.events) as (id uuid, type text, purpose text, payload jsonb, actor text, tool_name text,
    latency_ms integer, token_usage jsonb, cost_units numeric)) with ordinality
    as e(id, type, purpose, payload, actor, tool_name, latency_ms, token_usage, cost_units, n)
$unpack$;
create view concord.domain_events with (security_invoker = true) as
select e.event_id, j.command_id, j.agent_run_id, j.swarm_run_id, e.purpose, e.event_type, e.payload, e.actor, j.trace_id,
  case when e.purpose = 'agent_step' then j.step_index end as step_index, e.tool_name, e.latency_ms, e.token_usage, e.cost_units,
  j.created_at, j.workspace_id, j.seq + e.place as seq, j.xid, j.entry_id, j.seq as entry_seq
from concord.journal as j cross join lateral concord.unpack(j.entry_id, j.events) as e;

comment on table concord.journal is 'Append-only. One row per commit and thing: all its events, in order. Replaces command_events, domain_audit_log and agent_steps.';
comment on column concord.journal.seq is 'Order within a transaction, and of one command; has gaps, never a cursor on its own.';
comment on column concord.journal.xid is 'Transaction that wrote the row; below the oldest running one it is final.';
comment on view concord.domain_events is 'The events of the journal, one row each.';
comment on column concord.domain_events.entry_id is 'The row of the journal that holds the event.';
comment on column concord.domain_events.entry_seq is 'seq of that row: indexed, where seq of the event is not.';

create trigger journal_append_only before update or delete or truncate on concord.journal
  for each statement execute function concord.refuse_change();
alter table concord.journal enable always trigger journal_append_only;
alter table concord.journal enable row level security, force row level security;
create policy journal_engine on concord.journal to concord_engine using (true) with check (true);
create policy journal_app on concord.journal to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select on concord.journal, concord.domain_events to concord_engine, concord_app;
grant insert (entry_id, workspace_id, command_id, agent_run_id, swarm_run_id, step_index, trace_id, created_at, events)
  on concord.journal to concord_engine, concord_app;

-- down
alter table concord.journal no force row level security;
alter view concord.domain_events rename to journal_events;
create table concord.domain_events (
  event_id     uuid                    not null,
  command_id   uuid,
  agent_run_id uuid,
  swarm_run_id uuid,
  purpose      concord.event_purpose   not null,
  event_type   concord.filled_text     not null,
  payload      concord.object_json     not null,
  actor        concord.filled_text     not null,
  trace_id     concord.filled_text     not null,
  step_index   concord.count_from_zero,
  tool_name    text,
  latency_ms   concord.count_from_zero,
  token_usage  jsonb,
  cost_units   concord.cost_units,
  created_at   concord.finite_time     not null default now(),
  workspace_id uuid                    not null,
  seq          bigint                  not null generated always as identity,
  xid          xid8                    not null default pg_current_xact_id(),
  constraint domain_events_pk primary key (event_id),
  constraint domain_events_command_fk foreign key (workspace_id, command_id)
    references concord.commands (workspace_id, command_id),
  constraint domain_events_agent_run_fk foreign key (workspace_id, agent_run_id)
    references concord.agent_runs (workspace_id, agent_run_id),
  constraint domain_events_swarm_run_fk foreign key (workspace_id, swarm_run_id)
    references concord.swarm_runs (workspace_id, swarm_run_id),
  constraint domain_events_agent_step_ck check (case when purpose = 'agent_step'
    then agent_run_id is not null and step_index is not null
    else step_index is null and tool_name is null and latency_ms is null and token_usage is null and cost_units is null end)
);
insert into concord.domain_events (event_id, command_id, agent_run_id, swarm_run_id, purpose, event_type, payload, actor, trace_id, step_index,
  tool_name, latency_ms, token_usage, cost_units, created_at, workspace_id, seq, xid) overriding system value
select event_id, command_id, agent_run_id, swarm_run_id, purpose, event_type, payload, actor, trace_id, step_index,
  tool_name, latency_ms, token_usage, cost_units, created_at, workspace_id, seq, xid
from concord.journal_events order by seq;
select setval(pg_get_serial_sequence('concord.domain_events', 'seq'), (select coalesce(max(seq), 0) + 65536 from concord.domain_events));
do $check$
begin
  if (select count(*) from concord.domain_events) <> (select coalesce(sum(json_array_length(events)), 0) from concord.journal) then
    raise exception 'not every event was copied';
  end if;
end
$check$;
drop view concord.journal_events;
drop table concord.journal;
drop function concord.unpack(uuid, json);
drop function concord.are_events(json, integer);
create index idx_domain_events_command on concord.domain_events (command_id, seq);
create index idx_domain_events_purpose on concord.domain_events (workspace_id, purpose, seq);
create unique index idx_domain_events_agent on concord.domain_events (agent_run_id, step_index) where agent_run_id is not null;
create index idx_domain_events_audit on concord.domain_events (command_id, created_at) where purpose = 'audit';
create index domain_events_feed_ix on concord.domain_events (xid, seq);
create index domain_events_incidents_ix on concord.domain_events (created_at) where event_type = 'compensation_drift';
comment on table concord.domain_events is 'Append-only. Replaces command_events, domain_audit_log and agent_steps.';
comment on column concord.domain_events.seq is 'Order within a transaction, and of one command; has gaps, never a cursor on its own.';
comment on column concord.domain_events.xid is 'Transaction that wrote the row; below the oldest running one it is final.';
create trigger domain_events_append_only before update or delete or truncate on concord.domain_events
  for each statement execute function concord.refuse_change();
alter table concord.domain_events enable always trigger domain_events_append_only;
alter table concord.domain_events enable row level security, force row level security;
create policy domain_events_engine on concord.domain_events to concord_engine using (true) with check (true);
create policy domain_events_app on concord.domain_events to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select on concord.domain_events to concord_engine, concord_app;
grant insert (event_id, command_id, agent_run_id, swarm_run_id, purpose, event_type, payload, actor, trace_id, step_index,
  tool_name, latency_ms, token_usage, cost_units, created_at, workspace_id) on concord.domain_events to concord_engine, concord_app;
