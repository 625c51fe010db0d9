-- 0042 mission_auxiliaries: the commands of a mission beside its attempts: planner, hooks and verifiers.
-- Why: what they cost counts like the cost of an attempt, once. Whether one is open is one look into an index, whatever the size of the plan. A hook that follows
--   an attempt is written down with the end of the attempt, so no turn looks for it.
-- The table is ours. Indexes: of those that are not settled, which a turn reads; the rest for foreign keys. Locks: none that others wait for. Reverse: drop the table.
create domain missions.auxiliary_kind as varchar(20) constraint auxiliary_kind_ck check (value in ('planner', 'before_run', 'after_run', 'verifier'));
create table missions.orchestration_auxiliaries (
  key          varchar(255)            not null,
  run_id       uuid                    not null,
  workspace_id uuid                    not null,
  kind         missions.auxiliary_kind not null,
  task_id      uuid,
  attempt      missions.ordinal,
  command_id   uuid,
  cost         missions.cost           not null default 0,
  tokens       concord.count_from_zero not null default 0,
  error        text,
  settled_at   concord.finite_time,
  constraint orchestration_auxiliaries_pk primary key (key),
  constraint orchestration_auxiliaries_run_fk foreign key (run_id, workspace_id)
    references missions.orchestration_runs (id, workspace_id) on delete cascade,
  constraint orchestration_auxiliaries_task_fk foreign key (task_id, run_id)
    references missions.orchestration_tasks (id, run_id) on delete cascade,
  constraint orchestration_auxiliaries_command_fk foreign key (workspace_id, command_id) references concord.commands (workspace_id, command_id),
  constraint orchestration_auxiliaries_task_ck check ((kind = 'planner') = (task_id is null) and (task_id is null) = (attempt is null))
);
create index orchestration_auxiliaries_open_ix on missions.orchestration_auxiliaries (run_id, kind) where settled_at is null;
create index orchestration_auxiliaries_run_ix on missions.orchestration_auxiliaries (run_id);
create index orchestration_auxiliaries_task_ix on missions.orchestration_auxiliaries (task_id) where task_id is not null;
create index orchestration_auxiliaries_command_ix on missions.orchestration_auxiliaries (command_id) where command_id is not null;
comment on table missions.orchestration_auxiliaries is 'The commands of a mission beside its attempts, from their to-do until their cost is counted.';
comment on column missions.orchestration_auxiliaries.key is 'The idempotency key of the command.';
comment on column missions.orchestration_auxiliaries.command_id is 'Null: the command has yet to be submitted.';
comment on column missions.orchestration_auxiliaries.error is 'Why the command could not be submitted.';
alter table missions.orchestration_auxiliaries enable row level security, force row level security;
create policy orchestration_auxiliaries_engine on missions.orchestration_auxiliaries to concord_engine using (true) with check (true);
create policy orchestration_auxiliaries_app on missions.orchestration_auxiliaries to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select, insert, update on missions.orchestration_auxiliaries to concord_engine, concord_app;

-- down
drop table missions.orchestration_auxiliaries;
drop domain missions.auxiliary_kind;
