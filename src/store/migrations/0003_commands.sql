-- 0003 commands: what was asked for, before anything is done about it.
-- Why: intent is committed before work starts; status is the domain's, the runtime's own status stays with the runtime.
-- Additions to the printed table: workspace_id, request_fingerprint (same key with another request is refused), payload_hash
--   (an approval is bound to it), task_name, plan, cancellation_requested, command_type_version_id, error_class, attempt,
--   run_after, turn_token, turn_until. A driver's turn is fenced on the row; claimed_by and lease_until are banned from this
--   schema because nobody claims commands from it: the runtime hands out turns, the row only tells a late driver "no".
-- Indexes, each paid for by every insert: pk; (workspace_id, command_id) is the target of all composite keys, and with
--   time-ordered ids also the list of a workspace, newest first; (idempotency_key, workspace_id) dedupes, key first: led by
--   workspace_id, a planner without statistics took it for checking references to (workspace_id, command_id) and read every
--   command of the workspace for each event (4 ms for a command at 400 of them, and growing); the workflow id is unique by contract; the due index is partial on completed_at, which changes once in a life, so that status, turn and
--   plan updates stay heap-only (fillfactor leaves them room). The key to workspaces costs nothing that shows: 5,500 against
--   5,600 commands with their event per second on 8 connections, below the noise; an event's key to its command about a tenth.
-- Rules of one column are domains, rules between columns are CHECKs. Postgres reads every CHECK of a table anew for every
--   statement, about 8 µs per 1,000 characters of its stored form, also for columns that the statement does not touch; the rules
--   of a domain are kept per connection and asked only where a value is assigned. All as CHECKs, a move with its event took 240 µs
--   of Postgres CPU; so it takes 178, and 148 with no CHECK left (one connection, nothing flushed).
--   For the same reason ended states are one array literal: a list of constants is stored half as long again.
-- Locks: none (new table). Reverse: drop schema concord.
create schema concord;
grant usage on schema concord to concord_engine, concord_app;

-- For every table of this schema; closed lists of one table are made beside it.
create domain concord.filled_text as text constraint filled_text_ck check (value <> '');
create domain concord.finite_time as timestamptz constraint finite_time_ck check (isfinite(value));
create domain concord.object_json as jsonb constraint object_json_ck check (jsonb_typeof(value) = 'object');
create domain concord.list_json as jsonb constraint list_json_ck check (jsonb_typeof(value) = 'array');
create domain concord.count_from_zero as integer constraint count_from_zero_ck check (value >= 0);
create domain concord.count_from_one as integer constraint count_from_one_ck check (value >= 1);
-- NaN sorts above every number, so "below infinity" refuses it too; otherwise it would switch a cap off.
create domain concord.cost_units as numeric constraint cost_units_ck check (value >= 0 and value < 'Infinity');
create domain concord.cost_limit as numeric constraint cost_limit_ck check (value > 0 and value < 'Infinity');

create domain concord.command_status as text constraint command_status_ck check (value in (
  'created', 'validated', 'waiting_for_input', 'waiting_for_approval', 'approved', 'queued', 'running', 'blocked',
  'succeeded', 'failed', 'cancelled', 'expired', 'compensating', 'compensated', 'cancelling'));
create domain concord.ingress as text constraint ingress_ck check (value in (
  'user_request', 'scheduled_trigger', 'webhook', 'system_event', 'agent_action', 'connector_event', 'human_decision'));
create domain concord.cancellation_mode as text constraint cancellation_mode_ck check (value in ('graceful', 'compensate_then_stop'));
create domain concord.error_class as text constraint error_class_ck check (value in (
  'transient_connector_error', 'rate_limited', 'timeout', 'temporary_database_error',
  'validation_error', 'policy_denied', 'approval_rejected', 'permission_denied', 'malformed_payload', 'internal_error'));

create table concord.commands (
  command_id              uuid                      not null,
  command_type            concord.filled_text       not null,
  requested_by            concord.filled_text       not null,
  ingress                 concord.ingress           not null,
  payload                 concord.object_json       not null,
  context                 concord.object_json       not null,
  status                  concord.command_status    not null,
  cancellation_mode       concord.cancellation_mode not null default 'graceful',
  idempotency_key         concord.filled_text,
  runtime_workflow_id     concord.filled_text,
  result                  jsonb,
  error                   text,
  created_at              concord.finite_time       not null default now(),
  updated_at              concord.finite_time       not null default now(),
  completed_at            concord.finite_time,
  workspace_id            uuid                      not null,
  request_fingerprint     text,
  payload_hash            concord.filled_text       not null,
  task_name               text,
  plan                    jsonb,
  cancellation_requested  boolean                   not null default false,
  command_type_version_id uuid,
  error_class             concord.error_class,
  attempt                 concord.count_from_one    not null default 1,
  run_after               concord.finite_time                default now(),
  turn_token              uuid,
  turn_until              concord.finite_time,
  constraint commands_pk primary key (command_id),
  constraint commands_workspace_uq unique (workspace_id, command_id),
  constraint commands_idempotency_key_uq unique (idempotency_key, workspace_id),
  constraint commands_runtime_workflow_id_uq unique (runtime_workflow_id),
  constraint commands_workspace_fk foreign key (workspace_id) references identity.workspaces (id),
  constraint commands_completed_at_ck check (
    (status = any ('{succeeded,failed,cancelled,expired,compensated}')) = (completed_at is not null)),
  constraint commands_request_fingerprint_ck check (idempotency_key is null or request_fingerprint is not null),
  constraint commands_turn_ck check ((turn_token is null) = (turn_until is null))
) with (fillfactor = 70);
-- The reconciler's only question: which open command was due long ago and has no living turn? A million waiting commands
-- with a due time ahead, or none, are not in its range.
create index commands_due_ix on concord.commands (run_after) where completed_at is null;

comment on table concord.commands is 'One row per governed request; the control surface of everything that follows from it.';
comment on column concord.commands.idempotency_key is 'Unique per workspace; another workspace may use the same key and learns nothing.';
comment on column concord.commands.request_fingerprint is 'Hash of the request that first used the key; a different one is refused.';
comment on column concord.commands.payload_hash is 'Hash of the canonical validated payload; changes with the payload.';
comment on column concord.commands.runtime_workflow_id is 'Id in the runtime, command:{command_id} or command:{command_id}:r{n} after a retry.';
comment on column concord.commands.attempt is 'Number of this run; a retry from failed counts up.';
comment on column concord.commands.run_after is 'When the next turn is due; set with the fact that makes one necessary. Null: nothing is due.';
comment on column concord.commands.turn_token is 'Fence of the turn under way: every write of a turn names it, a driver that lost it writes nothing.';
comment on column concord.commands.turn_until is 'After this time another driver may take the turn over.';

alter table concord.commands enable row level security, force row level security;
create policy commands_engine on concord.commands to concord_engine using (true) with check (true);
create policy commands_app on concord.commands to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select, insert, update on concord.commands to concord_engine, concord_app;

-- down
drop table concord.commands;
drop domain concord.filled_text, concord.finite_time, concord.object_json, concord.list_json, concord.count_from_zero,
  concord.count_from_one, concord.cost_units, concord.cost_limit, concord.command_status, concord.ingress,
  concord.cancellation_mode, concord.error_class;
drop schema concord;
