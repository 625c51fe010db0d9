-- 0016 notification_reads: who has read which message in the app, and when first.
-- Why: an inbox without marks shows everything as new for ever. A table of its own, because a message may be for somebody
--   under several names, and the row of the call is a record of what left the house: nobody writes into it afterwards.
-- One row per message and person; the first reading stands.
-- Indexes: pk. connector_invocations gets the key that a row of the same workspace is named by, which is also the order of an
--   inbox; its list begins with the connector now, so that no check of a reference takes the list for the key.
-- Locks: connector_invocations, for as long as two indexes take. Reverse: drop the table and the key, lead the list as before.
alter table concord.connector_invocations
  add constraint connector_invocations_workspace_uq unique (workspace_id, connector_invocation_id);
drop index concord.connector_invocations_list_ix;
create index connector_invocations_list_ix on concord.connector_invocations
  (connector_name, workspace_id, connector_invocation_id);

create table concord.notification_reads (
  connector_invocation_id uuid                not null,
  user_id                 uuid                not null,
  read_at                 concord.finite_time not null,
  workspace_id            uuid                not null,
  constraint notification_reads_pk primary key (connector_invocation_id, user_id),
  constraint notification_reads_invocation_fk foreign key (workspace_id, connector_invocation_id)
    references concord.connector_invocations (workspace_id, connector_invocation_id),
  constraint notification_reads_user_fk foreign key (user_id) references identity.users (id)
);
comment on column concord.notification_reads.connector_invocation_id is 'The call that sent the message.';

alter table concord.notification_reads enable row level security, force row level security;
create policy notification_reads_engine on concord.notification_reads to concord_engine using (true) with check (true);
create policy notification_reads_app on concord.notification_reads to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select, insert on concord.notification_reads to concord_engine, concord_app;

-- down
drop table concord.notification_reads;
alter table concord.connector_invocations drop constraint connector_invocations_workspace_uq;
drop index concord.connector_invocations_list_ix;
create index connector_invocations_list_ix on concord.connector_invocations
  (workspace_id, connector_name, connector_invocation_id);
