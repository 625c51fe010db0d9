-- 0036 quarantines: models that cost more than their worst case, and the index of incidents that operators must hear of.
-- Why: a call that costs more than it reserved shows that the terms of its model are wrong, and no reservation for that model can be trusted. No
--   call of the model begins in the workspace until an administrator lifts the quarantine. Rows are kept: which call, since when, and who lifted it.
--   Operators hear of a breach, a quarantine and a stop as they hear of a compensation that drifted.
-- Indexes: model_quarantines_open_uq for the question of every reservation, and for one quarantine per model; journal_incidents_ix as before, with more types.
-- The table is ours. Locks: journal, for as long as one pass over it takes. Reverse: drop the table, the index of 0019.
create table concord.model_quarantines (
  quarantine_id uuid                not null,
  workspace_id  uuid                not null,
  model         concord.filled_text not null,
  command_id    uuid                not null,
  account_id    uuid                not null,
  key           concord.filled_text not null,
  excess_units  concord.cost_excess not null,
  created_at    concord.finite_time not null,
  lifted_at     concord.finite_time,
  lifted_by     concord.filled_text,
  lift_reason   concord.filled_text,
  constraint model_quarantines_pk primary key (quarantine_id, workspace_id),
  constraint model_quarantines_command_fk foreign key (workspace_id, command_id) references concord.commands (workspace_id, command_id),
  constraint model_quarantines_account_fk foreign key (account_id, workspace_id) references concord.budget_accounts (account_id, workspace_id),
  constraint model_quarantines_lifted_ck check (num_nulls(lifted_at, lifted_by, lift_reason) in (0, 3))
);
create unique index model_quarantines_open_uq on concord.model_quarantines (workspace_id, model) where lifted_at is null;
comment on table concord.model_quarantines is 'Models that no call may begin with, because a call cost more than it had reserved.';
comment on column concord.model_quarantines.key is 'The key of the reservation of the call.';
alter table concord.model_quarantines enable row level security, force row level security;
create policy model_quarantines_engine on concord.model_quarantines to concord_engine using (true) with check (true);
create policy model_quarantines_app on concord.model_quarantines to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select, insert, update on concord.model_quarantines to concord_engine, concord_app;

drop index concord.journal_incidents_ix;
create index journal_incidents_ix on concord.journal (created_at)
  where audit_type in ('compensation_drift', 'budget_breached', 'model_quarantined', 'agents_stopped');

-- down
drop index concord.journal_incidents_ix;
create index journal_incidents_ix on concord.journal (created_at) where audit_type = 'compensation_drift';
drop table concord.model_quarantines;
