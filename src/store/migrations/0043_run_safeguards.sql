-- 0043 run_safeguards: what keeps a run of an agent inside its budget and away from what was erased, and the secret of the installation.
-- Why: two processes that ask a model for one call of a run meet on the row of the try. Without the index both could call with one reservation.
--   A turn keeps the conversation of its run in memory; the number of erasures tells it that the conversation has changed. The erasure takes the lock of the run before
--   it empties the messages, so that an answer is either emptied by it or sees the number.
--   Page cursors and states of MCP were signed with a hash of the database URL. It can be guessed, and two processes with different URLs refuse each other. The secret is
--   made here, once: two random UUIDs have 244 random bits.
-- Additions to the printed tables: agent_runs.erasures.
-- Index: connector_invocations_model_try_uq, for the keys of model calls alone. It is built after the commit, while calls are written. Locks: a short exclusive lock on
--   agent_runs, which is not rewritten. Reverse: drop what was added.
alter table concord.agent_runs add column erasures integer not null default 0;
comment on column concord.agent_runs.erasures is 'How often messages of the run were erased while it was open.';

create table identity.installation (
  only_row boolean not null default true,
  secret   text    not null,
  constraint installation_pk primary key (only_row),
  constraint installation_only_row_ck check (only_row),
  constraint installation_secret_ck check (secret ~ '^[0-9a-f]{64}$')
);
insert into identity.installation (secret) values (replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''));
alter table identity.installation enable row level security, force row level security;
create policy installation_engine on identity.installation to concord_engine using (true) with check (true);
grant select on identity.installation to concord_engine;
comment on table identity.installation is 'One row. Its secret signs what every process of the installation must be able to read.';

-- after commit
create unique index concurrently connector_invocations_model_try_uq on concord.connector_invocations (command_id, idempotency_key, attempt)
  where idempotency_key ~ '^agent:[0-9a-f-]{36}:model:[0-9]+:[0-9]+$';

-- down
drop index concord.connector_invocations_model_try_uq;
drop table identity.installation;
alter table concord.agent_runs drop column erasures;
