-- 0018 lean_indexes: an index for every list, and none that no query needs.
-- Why: a list of commands by status, by task or by requester read the whole table (36,800 blocks at 111,000 commands), and each command paid for
--   indexes that no query used.
-- Commands. Lists by status, task and requester: each index ends with command_id, which grows with time, so a page is read in order. None begins
--   with workspace_id, or the planner could take it for the target of a foreign key. The
--   fact commands_last_hour counts by requester. Keys: only rows that have one are in the index of the key. runtime_workflow_id follows from the
--   id, so a check keeps it unique without an index.
-- Effects. The primary key names the workspace too and is the target of the composite keys; before, a second unique index was. Effects that
--   are not over are found through their commands. Without an index on a state an update of an effect is HOT.
-- Fill factor: no update of a command is HOT, since its status and its due time are indexed. The free space was never used.
-- Locks: commands, domain_effects and the tables that name effects, for as long as the indexes take (1 s for 100,000 commands). Reverse: as it was.
create index commands_status_ix on concord.commands (status, workspace_id, command_id);
create index commands_task_ix on concord.commands (task_name, workspace_id, command_id);
create index commands_requester_ix on concord.commands (requested_by, workspace_id, command_id);

alter table concord.commands drop constraint commands_idempotency_key_uq;
create unique index commands_idempotency_key_uq on concord.commands (idempotency_key, workspace_id) where idempotency_key is not null;

alter table concord.commands drop constraint commands_runtime_workflow_id_uq;
alter table concord.commands add constraint commands_runtime_workflow_id_ck
  check (split_part(runtime_workflow_id, ':', 2) = command_id::text);
alter table concord.commands set (fillfactor = 100);

alter table concord.approvals drop constraint approvals_domain_effect_fk;
alter table concord.artifacts drop constraint artifacts_domain_effect_fk;
alter table concord.connector_invocations drop constraint connector_invocations_domain_effect_fk;
alter table concord.domain_effects drop constraint domain_effects_compensates_fk;
alter table concord.domain_effects drop constraint domain_effects_workspace_uq;
alter table concord.domain_effects drop constraint domain_effects_pk;
alter table concord.domain_effects add constraint domain_effects_pk primary key (domain_effect_id, workspace_id);
alter table concord.approvals add constraint approvals_domain_effect_fk
  foreign key (domain_effect_id, workspace_id) references concord.domain_effects (domain_effect_id, workspace_id);
alter table concord.artifacts add constraint artifacts_domain_effect_fk
  foreign key (domain_effect_id, workspace_id) references concord.domain_effects (domain_effect_id, workspace_id);
alter table concord.connector_invocations add constraint connector_invocations_domain_effect_fk
  foreign key (domain_effect_id, workspace_id) references concord.domain_effects (domain_effect_id, workspace_id);
alter table concord.domain_effects add constraint domain_effects_compensates_fk
  foreign key (compensates_effect_id, workspace_id) references concord.domain_effects (domain_effect_id, workspace_id);
drop index concord.idx_domain_effects_status;

-- down
create index idx_domain_effects_status on concord.domain_effects (workspace_id, created_at) where completed_at is null;
alter table concord.approvals drop constraint approvals_domain_effect_fk;
alter table concord.artifacts drop constraint artifacts_domain_effect_fk;
alter table concord.connector_invocations drop constraint connector_invocations_domain_effect_fk;
alter table concord.domain_effects drop constraint domain_effects_compensates_fk;
alter table concord.domain_effects drop constraint domain_effects_pk;
alter table concord.domain_effects add constraint domain_effects_pk primary key (domain_effect_id);
alter table concord.domain_effects add constraint domain_effects_workspace_uq unique (workspace_id, domain_effect_id);
alter table concord.approvals add constraint approvals_domain_effect_fk
  foreign key (workspace_id, domain_effect_id) references concord.domain_effects (workspace_id, domain_effect_id);
alter table concord.artifacts add constraint artifacts_domain_effect_fk
  foreign key (workspace_id, domain_effect_id) references concord.domain_effects (workspace_id, domain_effect_id);
alter table concord.connector_invocations add constraint connector_invocations_domain_effect_fk
  foreign key (workspace_id, domain_effect_id) references concord.domain_effects (workspace_id, domain_effect_id);
alter table concord.domain_effects add constraint domain_effects_compensates_fk
  foreign key (workspace_id, compensates_effect_id) references concord.domain_effects (workspace_id, domain_effect_id);
alter table concord.commands set (fillfactor = 70);
alter table concord.commands drop constraint commands_runtime_workflow_id_ck;
alter table concord.commands add constraint commands_runtime_workflow_id_uq unique (runtime_workflow_id);
drop index concord.commands_idempotency_key_uq;
alter table concord.commands add constraint commands_idempotency_key_uq unique (idempotency_key, workspace_id);
drop index concord.commands_requester_ix;
drop index concord.commands_task_ix;
drop index concord.commands_status_ix;
