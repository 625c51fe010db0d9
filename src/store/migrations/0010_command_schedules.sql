-- 0010 command_schedules: what shall be asked for by the clock, in which workspace, and who may be held to it.
-- Why: a schedule that a person makes while the service runs must outlive the process, and the firing must find out whether it still
--   holds. The runtime keeps due times, leases and firings in a schema of its own; here are specifications, and the last
--   firing for people to look at. Schedules of the catalog have a row too, so that one list shows all and one switch stops each.
-- The `concord` schema has no table of schedules; this family has a schema of its own (docs/decisions/0013-schedules-of-commands.md).
-- A firing of a person's schedule acts with that person's rights at that moment, never above created_role.
-- Nothing is deleted: removed_at ends a schedule, and its name is free again.
-- Locks: none (new table). Reverse: drop schema schedules.
create schema schedules;
grant usage on schema schedules to concord_engine, concord_app;

create domain schedules.origin as text constraint origin_ck check (value in ('catalog', 'person'));
create domain schedules.overlap as text constraint overlap_ck check (value in ('skip', 'queue', 'allow'));
create domain schedules.misfire as text constraint misfire_ck check (value in ('skip', 'last', 'all'));
create domain schedules.jitter as integer constraint jitter_ck check (value between 0 and 3600000);
create domain schedules.creator_role as text constraint creator_role_ck check (value in ('system', 'writer', 'admin'));

create table schedules.command_schedules (
  schedule_id     uuid                   not null,
  workspace_id    uuid                   not null,
  name            concord.filled_text    not null,
  origin          schedules.origin       not null,
  command_type    concord.filled_text    not null,
  payload         concord.object_json    not null default '{}',
  cron            concord.filled_text    not null,
  time_zone       concord.filled_text    not null default 'UTC',
  queue           concord.filled_text    not null,
  overlap         schedules.overlap      not null,
  misfire         schedules.misfire      not null,
  jitter_ms       schedules.jitter       not null default 0,
  enabled         boolean                not null default true,
  created_by      concord.filled_text    not null,
  created_role    schedules.creator_role not null,
  created_at      concord.finite_time    not null default now(),
  updated_at      concord.finite_time    not null default now(),
  removed_at      concord.finite_time,
  last_due_at     concord.finite_time,
  last_command_id uuid,
  last_refusal    text,
  constraint command_schedules_pk primary key (schedule_id),
  constraint command_schedules_workspace_fk foreign key (workspace_id) references identity.workspaces (id),
  constraint command_schedules_last_command_fk foreign key (workspace_id, last_command_id)
    references concord.commands (workspace_id, command_id),
  constraint command_schedules_creator_ck check ((origin = 'catalog') = (created_role = 'system')),
  constraint command_schedules_last_ck check (last_due_at is not null or (last_command_id is null and last_refusal is null))
);
create unique index command_schedules_name_uq on schedules.command_schedules (workspace_id, name) where removed_at is null;
comment on column schedules.command_schedules.created_role is 'The most that a firing may do, whatever its creator may do today.';
comment on column schedules.command_schedules.last_due_at is 'The newest due time that led to a command or was turned away; for people, nothing is decided by it.';

alter table schedules.command_schedules enable row level security, force row level security;
create policy command_schedules_engine on schedules.command_schedules to concord_engine using (true) with check (true);
create policy command_schedules_app on schedules.command_schedules to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select, insert, update on schedules.command_schedules to concord_engine, concord_app;

-- down
drop schema schedules cascade;
