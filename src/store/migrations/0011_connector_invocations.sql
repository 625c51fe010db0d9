-- 0011 connector_invocations: one row per call to a system outside, written before the call and completed by its own id.
-- Why: what left the house, for which command, under which key, how it ended and how long it took; also what the limits of a
--   connector are counted over, so that they hold for all processes together. A record, never a queue.
-- Additions to the printed table: workspace_id.
-- Indexes: pk; command; (connector_name, created_at) is what limits count; (workspace_id, connector_name, id) is the list of a
--   workspace, in the order of ids, which is the order of time. None has a column that settling a call changes: it stays a
--   heap-only update.
-- Locks: none (new table). Reverse: drop it.
create domain concord.connector_invocation_status as text constraint connector_invocation_status_ck check (value in (
  'started', 'succeeded', 'failed'));

create table concord.connector_invocations (
  connector_invocation_id uuid                                not null,
  command_id              uuid                                not null,
  connector_name          concord.filled_text                 not null,
  operation               concord.filled_text                 not null,
  side_effect             boolean                             not null default false,
  idempotency_key         concord.filled_text,
  status                  concord.connector_invocation_status not null,
  request_payload         concord.object_json                 not null,
  response_payload        jsonb,
  error                   text,
  created_at              concord.finite_time                 not null default now(),
  completed_at            concord.finite_time,
  domain_effect_id        uuid,
  trace_id                text,
  latency_ms              concord.count_from_zero,
  attempt                 concord.count_from_one,
  error_class             concord.error_class,
  workspace_id            uuid                                not null,
  constraint connector_invocations_pk primary key (connector_invocation_id),
  constraint connector_invocations_command_fk foreign key (workspace_id, command_id)
    references concord.commands (workspace_id, command_id),
  constraint connector_invocations_domain_effect_fk foreign key (workspace_id, domain_effect_id)
    references concord.domain_effects (workspace_id, domain_effect_id),
  constraint connector_invocations_completed_at_ck check ((status = 'started') = (completed_at is null)),
  constraint connector_invocations_error_class_ck check ((status = 'failed') = (error_class is not null))
) with (fillfactor = 80);
create index connector_invocations_command_ix on concord.connector_invocations (command_id);
create index connector_invocations_limits_ix on concord.connector_invocations (connector_name, created_at);
create index connector_invocations_list_ix on concord.connector_invocations
  (workspace_id, connector_name, connector_invocation_id);
comment on column concord.connector_invocations.request_payload is 'The input without what is classed above confidential, and without anything that has the shape of a secret.';
comment on column concord.connector_invocations.response_payload is 'A summary: the answer itself where it is short, else its size, hash and keys.';
comment on column concord.connector_invocations.idempotency_key is 'The key as the provider got it.';

alter table concord.connector_invocations enable row level security, force row level security;
create policy connector_invocations_engine on concord.connector_invocations to concord_engine using (true) with check (true);
create policy connector_invocations_app on concord.connector_invocations to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select, insert, update on concord.connector_invocations to concord_engine, concord_app;

-- down
drop table concord.connector_invocations;
drop domain concord.connector_invocation_status;
