-- 0032 agent_runs_at_work: what a run may do is fixed with its row, a command knows the run that proposed it, and messages can be emptied.
-- Why: a run proposes commands for hours. Its manifest, scopes and limits are written once, with a hash of the whole and the hash of its parent, so that
--   the chain up to a person can be checked. Labels are only added. A run that ended says why.
--   commands.agent_run_id is the origin of a command, set by the gateway of agents and never changed: lineage, cost, stop and cancel go by it.
--   Events cannot be emptied, so the content of messages is in a table of its own: written once, and it can only be emptied.
-- Additions to the printed tables: commands.agent_run_id; on agent_runs the manifest, hashes, forbidden_tools, delegable_tools, termination, labels,
--   end_reason, cost_units, deadline_at and budget_account_id; on agent_messages workspace_id, position, turn, step_index, digest, size_bytes, labels and erased_at.
-- Indexes: agent_runs_living_uq lets one run of a command live; commands_agent_run_ix for the commands of a run; agent_messages_position_uq for the
--   conversation of a run, in its order; agent_messages_signature_ix counts how often a run has made a call with the same observation. No index changes with the status of a row.
-- Locks: short exclusive locks on commands and agent_runs, and one pass over agent_runs for its new rules. The rules of commands are checked and its index is
--   built after the commit, while commands are written. Reverse: drop what was added.
create domain concord.sha256_hex as text constraint sha256_hex_ck check (value ~ '^[0-9a-f]{64}$');
create domain concord.agent_run_end_reason as text constraint agent_run_end_reason_ck check (value in (
  'final_answer_created', 'human_cancelled', 'max_steps_reached', 'policy_denied', 'budget_exhausted', 'deadline_passed',
  'loop_detected', 'stopped', 'failed', 'parent_ended', 'join_decided'));
create domain concord.message_role as text constraint message_role_ck check (value in ('system', 'user', 'assistant', 'tool', 'agent'));
create domain concord.message_type as text constraint message_type_ck check (value in (
  'instruction', 'question', 'answer', 'observation', 'critique', 'result'));

alter table concord.agent_runs
  add column manifest              concord.object_json not null default '{}',
  add column manifest_hash         concord.sha256_hex,
  add column authority_hash        concord.sha256_hex,
  add column parent_authority_hash concord.sha256_hex,
  add column forbidden_tools       concord.list_json   not null default '[]',
  add column delegable_tools       concord.list_json   not null default '[]',
  add column termination           concord.object_json not null default '{}',
  add column labels                concord.list_json   not null default '[]',
  add column end_reason            concord.agent_run_end_reason,
  add column cost_units            concord.cost_units  not null default 0,
  add column deadline_at           concord.finite_time,
  add column budget_account_id     uuid,
  add constraint agent_runs_parent_hash_ck check (authority_hash is null or parent_agent_run_id is null or parent_authority_hash is not null),
  add constraint agent_runs_end_reason_ck check ((end_reason is not null) = (completed_at is not null or cancelled_at is not null));
create unique index agent_runs_living_uq on concord.agent_runs (command_id) where completed_at is null and cancelled_at is null;
comment on column concord.agent_runs.manifest is 'All that the agent sees: its skills, tools and scopes. Frozen with the row.';
comment on column concord.agent_runs.authority_hash is 'SHA-256 of the columns that fix what the run may do, and of the hash of its parent.';
comment on column concord.agent_runs.delegable_tools is 'Tools that a child may get although the run itself has no right to call them.';
comment on column concord.agent_runs.labels is 'What the run has read that must be known when it acts; only added to.';
comment on column concord.agent_runs.cost_units is 'Spent by the run itself.';

drop trigger agent_runs_memory_scope_fixed on concord.agent_runs;
create trigger agent_runs_authority_fixed before update of command_id, workspace_id, swarm_run_id, parent_agent_run_id, agent_name, agent_role, agent_version,
    goal, allowed_tools, allowed_connectors, memory_scope, context_scope, max_steps, spawn_depth, model_config, runtime_config, manifest, manifest_hash,
    authority_hash, parent_authority_hash, forbidden_tools, delegable_tools, termination, deadline_at, budget_account_id on concord.agent_runs
  for each row when (
    (new.command_id, new.workspace_id, new.swarm_run_id, new.parent_agent_run_id, new.agent_name, new.agent_role, new.agent_version, new.goal,
     new.allowed_tools, new.allowed_connectors, new.memory_scope, new.context_scope, new.max_steps, new.spawn_depth, new.model_config,
     new.runtime_config, new.manifest, new.manifest_hash, new.authority_hash, new.parent_authority_hash, new.forbidden_tools, new.delegable_tools,
     new.termination, new.deadline_at, new.budget_account_id)
    is distinct from
    (old.command_id, old.workspace_id, old.swarm_run_id, old.parent_agent_run_id, old.agent_name, old.agent_role, old.agent_version, old.goal,
     old.allowed_tools, old.allowed_connectors, old.memory_scope, old.context_scope, old.max_steps, old.spawn_depth, old.model_config,
     old.runtime_config, old.manifest, old.manifest_hash, old.authority_hash, old.parent_authority_hash, old.forbidden_tools, old.delegable_tools,
     old.termination, old.deadline_at, old.budget_account_id))
  execute function concord.refuse_rewrite('authority');
create trigger agent_runs_labels_kept before update of labels on concord.agent_runs
  for each row when (not new.labels @> old.labels) execute function concord.refuse_rewrite('a label');

alter table concord.commands
  add column agent_run_id uuid,
  add constraint commands_agent_run_fk foreign key (workspace_id, agent_run_id) references concord.agent_runs (workspace_id, agent_run_id) not valid,
  add constraint commands_agent_run_ck check (agent_run_id is null or ingress = 'agent_action') not valid;
comment on column concord.commands.agent_run_id is 'The run that proposed it; null for every other command.';
-- After the update: a row trigger before an update makes Postgres lock the row first, for every update of the table.
create trigger commands_agent_run_fixed after update of agent_run_id on concord.commands
  for each row when (new.agent_run_id is distinct from old.agent_run_id) execute function concord.refuse_rewrite('agent_run_id');

create table concord.agent_messages (
  agent_message_id    uuid                    not null,
  workspace_id        uuid                    not null,
  agent_run_id        uuid                    not null,
  swarm_run_id        uuid,
  parent_agent_run_id uuid,
  position            concord.count_from_zero not null,
  turn                concord.count_from_zero not null,
  step_index          concord.count_from_zero,
  message_role        concord.message_role    not null,
  message_type        concord.message_type    not null,
  content             text                    not null,
  digest              concord.sha256_hex      not null,
  size_bytes          concord.count_from_zero not null,
  labels              concord.list_json       not null default '[]',
  metadata            concord.object_json     not null default '{}',
  created_at          concord.finite_time     not null default now(),
  erased_at           concord.finite_time,
  constraint agent_messages_pk primary key (agent_message_id),
  constraint agent_messages_position_uq unique (agent_run_id, position),
  constraint agent_messages_agent_run_fk foreign key (workspace_id, agent_run_id) references concord.agent_runs (workspace_id, agent_run_id),
  constraint agent_messages_swarm_run_fk foreign key (workspace_id, swarm_run_id) references concord.swarm_runs (workspace_id, swarm_run_id),
  constraint agent_messages_parent_fk foreign key (workspace_id, parent_agent_run_id) references concord.agent_runs (workspace_id, agent_run_id),
  constraint agent_messages_erased_ck check ((erased_at is not null) = (content = ''))
);
create index agent_messages_swarm_run_ix on concord.agent_messages (swarm_run_id) where swarm_run_id is not null;
create index agent_messages_parent_ix on concord.agent_messages (parent_agent_run_id) where parent_agent_run_id is not null;
create index agent_messages_signature_ix on concord.agent_messages (agent_run_id, (metadata->>'signature')) where metadata ? 'signature';
create index agent_messages_age_ix on concord.agent_messages (created_at) where erased_at is null;
comment on table concord.agent_messages is 'The conversation of a run. Never the only record: decisions are commands and events, results are artifacts.';
comment on column concord.agent_messages.content is 'JSON, written once; empty after it was erased.';
comment on column concord.agent_messages.digest is 'SHA-256 of the content as it was written.';
create trigger agent_messages_content_fixed before update of content on concord.agent_messages
  for each row when (new.content is distinct from old.content and new.content <> '') execute function concord.refuse_rewrite('content');
alter table concord.agent_messages enable row level security, force row level security;
create policy agent_messages_engine on concord.agent_messages to concord_engine using (true) with check (true);
create policy agent_messages_app on concord.agent_messages to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select, insert, update (content, erased_at) on concord.agent_messages to concord_engine, concord_app;

-- after commit
create index concurrently commands_agent_run_ix on concord.commands (agent_run_id) where agent_run_id is not null;
alter table concord.commands validate constraint commands_agent_run_fk;
alter table concord.commands validate constraint commands_agent_run_ck;

-- down
drop table concord.agent_messages;
drop trigger commands_agent_run_fixed on concord.commands;
alter table concord.commands drop column agent_run_id;
drop trigger agent_runs_labels_kept on concord.agent_runs;
drop trigger agent_runs_authority_fixed on concord.agent_runs;
create trigger agent_runs_memory_scope_fixed before update of memory_scope on concord.agent_runs
  for each row when (new.memory_scope is distinct from old.memory_scope) execute function concord.refuse_rewrite('memory_scope');
drop index concord.agent_runs_living_uq;
alter table concord.agent_runs drop constraint agent_runs_parent_hash_ck, drop constraint agent_runs_end_reason_ck,
  drop column manifest, drop column manifest_hash, drop column authority_hash, drop column parent_authority_hash, drop column forbidden_tools,
  drop column delegable_tools, drop column termination, drop column labels, drop column end_reason, drop column cost_units, drop column deadline_at,
  drop column budget_account_id;
drop domain concord.sha256_hex, concord.agent_run_end_reason, concord.message_role, concord.message_type;
