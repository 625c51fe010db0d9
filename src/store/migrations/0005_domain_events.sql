-- 0005 domain_events: what happened, told once, never changed; and the seals that would show a change.
-- Why: one table replaces command_events, domain_audit_log and agent_steps; purpose tells them apart.
-- Additions to the printed table: workspace_id, seq, xid. A reader that asks "seq > last" loses what commits late; the feed
--   reads (xid, seq) below pg_snapshot_xmin(pg_current_snapshot()), so it misses nothing and repeats nothing. xid counts in
--   this cluster: a logical restore elsewhere leaves the column to its default and re-seals.
-- Append-only: the service's roles hold insert and select alone, and not on seq and xid, so a writer cannot forge its place.
--   The trigger refuses the owner and superusers too, also under session_replication_role = replica. Retention is the one way
--   out: the owner, with set local concord.retention = 'on', may delete; nobody may update or truncate.
-- No key to workspaces: evidence outlives its workspace, and rows with a command are tied to its workspace through it.
-- Indexes, each paid for by every insert: pk (a replayed event meets itself); command: a command's history in order; purpose:
--   a workspace's audit in order; audit: compliance by command and time; agent: partial, also makes a step unique within its run;
--   feed. Nothing updates these rows, so pages are packed full.
-- Locks: none (new tables). Reverse: drop both and the function.
create domain concord.event_purpose as text constraint event_purpose_ck check (value in ('event', 'audit', 'agent_step'));

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
create index idx_domain_events_command on concord.domain_events (command_id, seq);
create index idx_domain_events_purpose on concord.domain_events (workspace_id, purpose, seq);
-- Other events of a run have no step_index, and nulls are distinct: one index finds them and keeps steps unique.
create unique index idx_domain_events_agent on concord.domain_events (agent_run_id, step_index) where agent_run_id is not null;
create index idx_domain_events_audit on concord.domain_events (command_id, created_at) where purpose = 'audit';
create index domain_events_feed_ix on concord.domain_events (xid, seq);
comment on table concord.domain_events is 'Append-only. Replaces command_events, domain_audit_log and agent_steps.';
comment on column concord.domain_events.seq is 'Order within a transaction, and of one command; has gaps, never a cursor on its own.';
comment on column concord.domain_events.xid is 'Transaction that wrote the row; below the oldest running one it is final.';

create table concord.domain_event_seals (
  workspace_id     uuid                not null,
  seal_no          bigint              not null,
  xid_from         xid8                not null,
  xid_to           xid8                not null,
  first_seq        bigint              not null,
  last_seq         bigint              not null,
  row_count        integer             not null,
  root_hash        bytea               not null,
  previous_seal_no bigint,
  previous_hash    bytea               not null,
  seal_hash        bytea               not null,
  sealed_at        concord.finite_time not null default now(),
  constraint domain_event_seals_pk primary key (workspace_id, seal_no),
  -- A seal continues the one before it: its number, its end and its hash, all three; the key leaves no room for a fork.
  constraint domain_event_seals_link_uq unique (workspace_id, seal_no, xid_to, seal_hash),
  constraint domain_event_seals_previous_fk foreign key (workspace_id, previous_seal_no, xid_from, previous_hash)
    references concord.domain_event_seals (workspace_id, seal_no, xid_to, seal_hash),
  constraint domain_event_seals_number_ck check (
    case when seal_no = 1 then previous_seal_no is null
      else seal_no > 1 and previous_seal_no is not null and previous_seal_no = seal_no - 1 end),
  constraint domain_event_seals_range_ck check (xid_from < xid_to and first_seq <= last_seq and row_count >= 1),
  constraint domain_event_seals_hashes_ck check (
    octet_length(root_hash) = 32 and octet_length(previous_hash) = 32 and octet_length(seal_hash) = 32)
);
comment on table concord.domain_event_seals is 'Per workspace a chain; a seal covers the rows with xid_from <= xid < xid_to, in order of xid, seq.';
comment on column concord.domain_event_seals.root_hash is 'Merkle root over the hashes of the covered rows.';
comment on column concord.domain_event_seals.previous_hash is 'seal_hash of the seal before; 32 zero bytes for the first.';

create function concord.refuse_change() returns trigger
  language plpgsql set search_path = pg_catalog
as $refuse$
begin
  if tg_op = 'DELETE' and current_setting('concord.retention', true) = 'on'
    and pg_has_role(current_user, (select relowner from pg_class where oid = tg_relid), 'USAGE') then
    return null;
  end if;
  raise exception '% is append-only: % refused', tg_table_name, lower(tg_op)
    using errcode = 'insufficient_privilege',
      hint = 'Retention deletes as the owner of the table, in a transaction with concord.retention set to on.';
end
$refuse$;
create trigger domain_events_append_only before update or delete or truncate on concord.domain_events
  for each statement execute function concord.refuse_change();
create trigger domain_event_seals_append_only before update or delete or truncate on concord.domain_event_seals
  for each statement execute function concord.refuse_change();
alter table concord.domain_events enable always trigger domain_events_append_only;
alter table concord.domain_event_seals enable always trigger domain_event_seals_append_only;

alter table concord.domain_events enable row level security, force row level security;
alter table concord.domain_event_seals enable row level security, force row level security;
create policy domain_events_engine on concord.domain_events to concord_engine using (true) with check (true);
create policy domain_event_seals_engine on concord.domain_event_seals to concord_engine using (true) with check (true);
create policy domain_events_app on concord.domain_events to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
create policy domain_event_seals_app on concord.domain_event_seals to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select on concord.domain_events to concord_engine, concord_app;
grant insert (event_id, command_id, agent_run_id, swarm_run_id, purpose, event_type, payload, actor, trace_id, step_index,
  tool_name, latency_ms, token_usage, cost_units, created_at, workspace_id) on concord.domain_events to concord_engine, concord_app;
grant select, insert on concord.domain_event_seals to concord_engine, concord_app;

-- down
drop table concord.domain_event_seals;
drop table concord.domain_events;
drop domain concord.event_purpose;
drop function concord.refuse_change();
