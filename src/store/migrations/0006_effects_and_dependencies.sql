-- 0006 effects_and_dependencies: what a command does to the world, and which commands wait for which.
-- Why: effects are written planned before the first of them runs; cancelling and compensating walk them. Never a work queue.
-- Additions to the printed tables: workspace_id; on effects declaration_order (the reverse walk needs an order, created_at ties
--   within a transaction), attempt, max_attempts, error_class, run_after (when a failed attempt may be repeated), turn_token
--   (the turn that wrote last; a late driver finds another one and writes nothing), reversibility, read_back.
-- Keys: unique per workspace over every effect, live or not. A compensation is another deed and a retried command plans new
--   deeds, so both carry keys of their own; failed means "known not to have happened", an unknown outcome stays executing.
-- Indexes: pk; (workspace_id, domain_effect_id) for composite keys; command in order of declaration; the key; open effects,
--   partial on completed_at and without status among its columns, so that planned to executing stays a heap-only update.
-- Locks: none (new tables). Reverse: drop both.
create table concord.command_dependencies (
  child_command_id       uuid                   not null,
  parent_command_id      uuid                   not null,
  required_status        concord.command_status not null default 'succeeded',
  propagate_cancellation boolean                not null default true,
  created_at             concord.finite_time    not null default now(),
  workspace_id           uuid                   not null,
  constraint command_dependencies_pk primary key (child_command_id, parent_command_id),
  constraint command_dependencies_child_fk foreign key (workspace_id, child_command_id)
    references concord.commands (workspace_id, command_id),
  constraint command_dependencies_parent_fk foreign key (workspace_id, parent_command_id)
    references concord.commands (workspace_id, command_id),
  constraint command_dependencies_self_ck check (child_command_id <> parent_command_id)
);
create index idx_command_deps_parent on concord.command_dependencies (parent_command_id);

create domain concord.effect_status as text constraint effect_status_ck check (value in ('planned', 'executing', 'succeeded', 'failed'));
create domain concord.reversibility as text constraint reversibility_ck check (value in ('reversible', 'compensatable', 'irreversible'));

create table concord.domain_effects (
  domain_effect_id                uuid                    not null,
  command_id                      uuid                    not null,
  effect_type                     concord.filled_text     not null,
  effect_payload                  concord.object_json     not null,
  idempotency_key                 concord.filled_text,
  status                          concord.effect_status   not null default 'planned',
  executed_by_runtime_workflow_id text,
  result                          jsonb,
  error                           text,
  compensates_effect_id           uuid,
  declared_compensation           text,
  created_at                      concord.finite_time     not null default now(),
  completed_at                    concord.finite_time,
  workspace_id                    uuid                    not null,
  declaration_order               concord.count_from_zero not null,
  attempt                         concord.count_from_zero not null default 0,
  max_attempts                    concord.count_from_one  not null default 3,
  error_class                     concord.error_class,
  run_after                       concord.finite_time,
  turn_token                      uuid,
  reversibility                   concord.reversibility,
  read_back                       jsonb,
  constraint domain_effects_pk primary key (domain_effect_id),
  constraint domain_effects_workspace_uq unique (workspace_id, domain_effect_id),
  constraint domain_effects_command_fk foreign key (workspace_id, command_id)
    references concord.commands (workspace_id, command_id),
  constraint domain_effects_compensates_fk foreign key (workspace_id, compensates_effect_id)
    references concord.domain_effects (workspace_id, domain_effect_id),
  constraint domain_effects_completed_at_ck check ((status = any ('{succeeded,failed}')) = (completed_at is not null)),
  constraint domain_effects_self_ck check (compensates_effect_id <> domain_effect_id)
) with (fillfactor = 80);
create index idx_domain_effects_command on concord.domain_effects (command_id, declaration_order);
create index idx_domain_effects_status on concord.domain_effects (workspace_id, created_at) where completed_at is null;
create unique index idx_domain_effects_idem on concord.domain_effects (workspace_id, idempotency_key)
  where idempotency_key is not null;
comment on column concord.domain_effects.idempotency_key is 'Handed to the provider; the truth of "this one deed", apart from the key of the command.';
comment on column concord.domain_effects.attempt is 'Executions begun so far.';
comment on column concord.domain_effects.run_after is 'Set while a failed attempt waits for its repeat.';
comment on column concord.domain_effects.reversibility is 'Whether it can be undone exactly, made good by a counter-deed, or neither.';
comment on column concord.domain_effects.read_back is 'What the provider showed when it was asked afterwards.';

alter table concord.command_dependencies enable row level security, force row level security;
alter table concord.domain_effects enable row level security, force row level security;
create policy command_dependencies_engine on concord.command_dependencies to concord_engine using (true) with check (true);
create policy domain_effects_engine on concord.domain_effects to concord_engine using (true) with check (true);
create policy command_dependencies_app on concord.command_dependencies to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
create policy domain_effects_app on concord.domain_effects to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select, insert on concord.command_dependencies to concord_engine, concord_app;
grant select, insert, update on concord.domain_effects to concord_engine, concord_app;

-- down
drop table concord.domain_effects;
drop domain concord.effect_status, concord.reversibility;
drop table concord.command_dependencies;
