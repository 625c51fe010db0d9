-- 0003 commands: what was asked for, before anything is done about it.
-- Why: intent is committed before work starts; status is the domain's, the runtime's own status stays with the runtime.
-- Additions to the printed table: workspace_id, request_fingerprint (same key with another request is refused), payload_hash
--   (an approval is bound to it), task_name, plan, cancellation_requested, command_type_version_id, error_class, attempt,
--   run_after, turn_token, turn_until. A driver's turn is fenced on the row; claimed_by and lease_until are banned from this
--   schema because nobody claims commands from it: the runtime hands out turns, the row only tells a late driver "no".
-- Indexes, each paid for by every insert: pk; (workspace_id, command_id) is the target of all composite keys, and with
--   time-ordered ids also the list of a workspace, newest first; (workspace_id, idempotency_key) dedupes; the workflow id is
--   unique by contract; the due index is partial on completed_at, which changes once in a life, so that status, turn and
--   plan updates stay heap-only (fillfactor leaves them room). The key to workspaces costs nothing that shows: 5,500 against
--   5,600 commands with their event per second on 8 connections, below the noise; an event's key to its command about a tenth.
-- Locks: none (new table). Reverse: drop schema concord.
create schema concord;
grant usage on schema concord to concord_engine, concord_app;

create table concord.commands (
  command_id              uuid        not null,
  command_type            text        not null,
  requested_by            text        not null,
  ingress                 text        not null,
  payload                 jsonb       not null,
  context                 jsonb       not null,
  status                  text        not null,
  cancellation_mode       text        not null default 'graceful',
  idempotency_key         text,
  runtime_workflow_id     text,
  result                  jsonb,
  error                   text,
  created_at              timestamptz not null default now(),
  updated_at              timestamptz not null default now(),
  completed_at            timestamptz,
  workspace_id            uuid        not null,
  request_fingerprint     text,
  payload_hash            text        not null,
  task_name               text,
  plan                    jsonb,
  cancellation_requested  boolean     not null default false,
  command_type_version_id uuid,
  error_class             text,
  attempt                 integer     not null default 1,
  run_after               timestamptz          default now(),
  turn_token              uuid,
  turn_until              timestamptz,
  constraint commands_pk primary key (command_id),
  constraint commands_workspace_uq unique (workspace_id, command_id),
  constraint commands_idempotency_key_uq unique (workspace_id, idempotency_key),
  constraint commands_runtime_workflow_id_uq unique (runtime_workflow_id),
  constraint commands_workspace_fk foreign key (workspace_id) references identity.workspaces (id),
  constraint commands_status_ck check (status in (
    'created', 'validated', 'waiting_for_input', 'waiting_for_approval', 'approved', 'queued', 'running', 'blocked',
    'succeeded', 'failed', 'cancelled', 'expired', 'compensating', 'compensated', 'cancelling')),
  constraint commands_ingress_ck check (ingress in (
    'user_request', 'scheduled_trigger', 'webhook', 'system_event', 'agent_action', 'connector_event', 'human_decision')),
  constraint commands_cancellation_mode_ck check (cancellation_mode in ('graceful', 'compensate_then_stop')),
  constraint commands_error_class_ck check (error_class in (
    'transient_connector_error', 'rate_limited', 'timeout', 'temporary_database_error',
    'validation_error', 'policy_denied', 'approval_rejected', 'permission_denied', 'malformed_payload', 'internal_error')),
  constraint commands_completed_at_ck check (
    (status in ('succeeded', 'failed', 'cancelled', 'expired', 'compensated')) = (completed_at is not null)),
  constraint commands_request_fingerprint_ck check (idempotency_key is null or request_fingerprint is not null),
  constraint commands_names_ck check (
    command_type <> '' and requested_by <> '' and payload_hash <> '' and idempotency_key <> '' and runtime_workflow_id <> ''),
  constraint commands_objects_ck check (jsonb_typeof(payload) = 'object' and jsonb_typeof(context) = 'object'),
  constraint commands_attempt_ck check (attempt >= 1),
  constraint commands_turn_ck check ((turn_token is null) = (turn_until is null)),
  constraint commands_times_ck check (isfinite(created_at) and isfinite(updated_at) and isfinite(completed_at)
    and isfinite(run_after) and isfinite(turn_until))
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
drop schema concord;
