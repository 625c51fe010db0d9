-- 0040 envelopes: how many calls of an envelope are used.
-- Why: people approve the calls of an agent together, before its run starts, with a number for each tool. The statement that counts a use is the one that
--   decides: of two calls that see the last use, one gets it. A trigger lets the count only go up by one. The envelope itself is a command, and its terms are in the effect that people approved.
-- The table is ours. Locks: none that others wait for. Reverse: drop the table.
create table concord.envelope_calls (
  envelope_id  uuid                not null,
  workspace_id uuid                not null,
  task_name    concord.filled_text not null,
  calls_used   integer             not null,
  calls_max    integer             not null,
  constraint envelope_calls_pk primary key (envelope_id, task_name),
  constraint envelope_calls_command_fk foreign key (workspace_id, envelope_id) references concord.commands (workspace_id, command_id),
  constraint envelope_calls_used_ck check (calls_used between 1 and calls_max)
);
comment on table concord.envelope_calls is 'The uses of envelopes: calls of agents that people approved before the run started.';
comment on column concord.envelope_calls.envelope_id is 'The command of the envelope.';
alter table concord.envelope_calls enable row level security, force row level security;
create policy envelope_calls_engine on concord.envelope_calls to concord_engine using (true) with check (true);
create policy envelope_calls_app on concord.envelope_calls to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
create trigger envelope_calls_used_counted before update on concord.envelope_calls
  for each row when (new.calls_used <> old.calls_used + 1
    or (new.envelope_id, new.workspace_id, new.task_name, new.calls_max)
      is distinct from (old.envelope_id, old.workspace_id, old.task_name, old.calls_max))
  execute function concord.refuse_rewrite('a use');
grant select, insert, update on concord.envelope_calls to concord_engine, concord_app;

-- down
drop table concord.envelope_calls;
