-- 0007 approvals: a person's decision as a row, bound to exactly what was shown.
-- Why: a decision is never only a message. The hash binds it to the payload, and whether the requester may decide is copied at
--   request time, so that a later edit of the approval type changes nothing that is already open.
-- Additions to the named fields: workspace_id, payload_hash, decided_by, decision_reason, idempotency_key,
--   self_decision_allowed, superseded_by, approvals_required, approver_roles, approved_by (the persons of a quorum so far),
--   domain_effect_id (what a reconcile_effect item is about).
-- The database repeats the rules that must never break: no late decision, no agent decides, no forbidden self-decision, no
--   approval below its quorum.
-- Locks: none (new table). Reverse: drop it.
create domain concord.approval_status as text constraint approval_status_ck check (value in (
  'pending', 'approved', 'rejected', 'changes_requested', 'expired', 'cancelled'));
create domain concord.decider as text constraint decider_ck check (value <> '' and value not like 'agent:%');

create table concord.approvals (
  approval_id           uuid                    not null,
  command_id            uuid                    not null,
  requested_by          concord.filled_text     not null,
  approver              concord.filled_text     not null,
  approval_type         concord.filled_text     not null,
  request_payload       concord.object_json     not null,
  review_packet         concord.object_json     not null,
  status                concord.approval_status not null default 'pending',
  expires_at            concord.finite_time,
  created_at            concord.finite_time     not null default now(),
  decided_at            concord.finite_time,
  workspace_id          uuid                    not null,
  decided_by            concord.decider,
  decision_reason       text,
  idempotency_key       concord.filled_text,
  payload_hash          concord.filled_text     not null,
  self_decision_allowed boolean                 not null default false,
  superseded_by         uuid,
  approvals_required    concord.count_from_one  not null default 1,
  approver_roles        text[]                  not null default '{}',
  approved_by           text[]                  not null default '{}',
  domain_effect_id      uuid,
  constraint approvals_pk primary key (approval_id),
  constraint approvals_workspace_uq unique (workspace_id, approval_id),
  constraint approvals_idempotency_key_uq unique (idempotency_key, workspace_id),
  constraint approvals_command_fk foreign key (workspace_id, command_id)
    references concord.commands (workspace_id, command_id),
  constraint approvals_superseded_by_fk foreign key (workspace_id, superseded_by)
    references concord.approvals (workspace_id, approval_id),
  constraint approvals_domain_effect_fk foreign key (workspace_id, domain_effect_id)
    references concord.domain_effects (workspace_id, domain_effect_id),
  constraint approvals_decided_at_ck check (
    (status = any ('{approved,rejected,changes_requested}')) = (decided_at is not null)
    and (decided_at is null) = (decided_by is null)),
  constraint approvals_in_time_ck check (decided_at < expires_at),
  constraint approvals_self_decision_ck check (
    self_decision_allowed or (decided_by is distinct from requested_by and not requested_by = any (approved_by))),
  constraint approvals_quorum_ck check (
    status <> 'approved' or approvals_required = 1 or cardinality(approved_by) >= approvals_required),
  constraint approvals_reconcile_ck check (approval_type <> 'reconcile_effect' or domain_effect_id is not null),
  constraint approvals_superseded_by_ck check (superseded_by <> approval_id)
) with (fillfactor = 80);
create index approvals_command_ix on concord.approvals (command_id);
-- The inbox and the expiry sweep look at open ones only; both stay as small as what people have not answered yet.
create index approvals_inbox_ix on concord.approvals (workspace_id, created_at) where status = 'pending';
create index approvals_expiry_ix on concord.approvals (expires_at) where status = 'pending';
comment on column concord.approvals.approver is 'The person or role that was asked.';
comment on column concord.approvals.payload_hash is 'payload_hash of the command as the approver saw it; another hash voids the approval.';
comment on column concord.approvals.self_decision_allowed is 'Copied from the approval type when asked.';
comment on column concord.approvals.approver_roles is 'Org roles whose members may decide beside the approver.';
comment on column concord.approvals.approved_by is 'Distinct persons who approved so far, where more than one must.';

alter table concord.approvals enable row level security, force row level security;
create policy approvals_engine on concord.approvals to concord_engine using (true) with check (true);
create policy approvals_app on concord.approvals to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select, insert, update on concord.approvals to concord_engine, concord_app;

-- down
drop table concord.approvals;
drop domain concord.approval_status, concord.decider;
