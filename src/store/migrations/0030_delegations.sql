-- 0030 delegations: a stand-in decides in the place of an approver for a time, and people get messages about themselves.
-- Why: an approver who is away would pass on a key. A delegation is on record, ends by itself, and a vote keeps in whose place it was given.
--   made_by holds the maker and the issuers of the maker, as granted_by of a role does: what the requester arranged after the request does not count.
--   An invitation that waits for a second yes, and a delegation, are told to the people concerned. Such a message belongs to no command and no workspace.
-- Indexes: delegations_to_ix is for the origins of a person (stands_for), which every decision and every inbox reads; messages_user_ix for the inbox.
-- Additions to the printed tables: approvals.approved_for. delegations and messages are ours.
-- Locks: approvals, for as long as one pass over it takes. Reverse: drop what was added.
create table identity.delegations (
  id           uuid        not null,
  org_id       uuid        not null,
  from_user_id uuid        not null,
  to_user_id   uuid        not null,
  until        timestamptz not null,
  made_by      uuid[]      not null,
  created_at   timestamptz not null,
  ended_at     timestamptz,
  constraint delegations_pk primary key (id),
  constraint delegations_from_fk foreign key (org_id, from_user_id) references identity.users (org_id, id),
  constraint delegations_to_fk foreign key (org_id, to_user_id) references identity.users (org_id, id),
  constraint delegations_self_ck check (from_user_id <> to_user_id),
  constraint delegations_made_by_ck check (cardinality(made_by) > 0 and (made_by[1] <> to_user_id)),
  constraint delegations_times_ck check (isfinite(created_at) and isfinite(until) and isfinite(ended_at) and until > created_at)
);
create index delegations_to_ix on identity.delegations (to_user_id) where ended_at is null;
comment on table identity.delegations is 'Until when a person may decide in the place of another.';
comment on column identity.delegations.made_by is 'Who made it, and the issuers of that person.';
alter table identity.delegations enable row level security, force row level security;
create policy delegations_engine on identity.delegations to concord_engine using (true) with check (true);
create policy delegations_app on identity.delegations for select to concord_app using (org_id = (select identity.current_org_id()));
grant select, insert, update on identity.delegations to concord_engine;
grant select on identity.delegations to concord_app;

alter table concord.approvals add column approved_for text[] not null default '{}';
comment on column concord.approvals.approved_for is 'In whose place each of approved_by approved: their own, or that of the person they stand in for. A missing entry is their own.';
alter table concord.approvals add constraint approvals_approved_for_ck check (cardinality(approved_for) <= cardinality(approved_by));

create table identity.messages (
  id         uuid        not null,
  org_id     uuid        not null,
  user_id    uuid        not null,
  subject    text        not null,
  text       text        not null,
  created_at timestamptz not null,
  read_at    timestamptz,
  constraint messages_pk primary key (id),
  constraint messages_user_fk foreign key (org_id, user_id) references identity.users (org_id, id),
  constraint messages_times_ck check (isfinite(created_at) and isfinite(read_at))
);
create index messages_user_ix on identity.messages (user_id, id);
comment on table identity.messages is 'Messages to a person about people, in the inbox of every workspace. They belong to no command.';
alter table identity.messages enable row level security, force row level security;
create policy messages_engine on identity.messages to concord_engine using (true) with check (true);
grant select, insert, update on identity.messages to concord_engine;

-- down
drop table identity.messages;
alter table concord.approvals drop constraint approvals_approved_for_ck, drop column approved_for;
drop table identity.delegations;
