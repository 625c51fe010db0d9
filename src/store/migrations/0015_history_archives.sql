-- 0015 history_archives: which file holds the events that were moved out of domain_events.
-- Why: the log only grows. Events of what ended long ago move into files beside the database; a row here says which file, what it
--   holds and what its content hashes to. It is written in the transaction that deletes those events, so an event is always in the
--   table or in a file that a row names (docs/decisions/0020-history-moves-into-files.md).
-- command_ids is a list and no table: a file is written once, its list with it, and 16 bytes a command for ever are enough. Nothing
--   is decided by it; it says where to look. No key to commands, since keys do not look into lists.
-- No key to workspaces: evidence outlives its workspace, as in 0005.
-- Append-only, with the trigger of 0005. The service's roles may read; only the owner adds rows, as only the owner deletes events.
-- Indexes: place: does anything archived lie behind a cursor; commands: which files hold a command.
-- Locks: none (new table). Reverse: drop it. The files stay, and nobody knows any more which of them belong to this database.
create table concord.history_archives (
  history_archive_id uuid                   not null,
  workspace_id       uuid                   not null,
  file               concord.filled_text    not null,
  content_hash       bytea                  not null,
  event_count        concord.count_from_one not null,
  command_ids        uuid[]                 not null,
  first_xid          xid8                   not null,
  first_seq          bigint                 not null,
  last_xid           xid8                   not null,
  last_seq           bigint                 not null,
  ended_before       concord.finite_time    not null,
  archived_at        concord.finite_time    not null default now(),
  constraint history_archives_pk primary key (history_archive_id),
  constraint history_archives_file_uq unique (file),
  constraint history_archives_hash_ck check (octet_length(content_hash) = 32),
  constraint history_archives_range_ck check ((first_xid, first_seq) <= (last_xid, last_seq)),
  constraint history_archives_age_ck check (ended_before <= archived_at)
);
create index history_archives_place_ix on concord.history_archives (workspace_id, last_xid, last_seq);
create index history_archives_commands_ix on concord.history_archives using gin (command_ids);
comment on table concord.history_archives is 'Append-only. Events that moved into a file: written with their deletion.';
comment on column concord.history_archives.file is 'Below the folder of the archive.';
comment on column concord.history_archives.content_hash is 'SHA-256 of the lines, before compression.';
comment on column concord.history_archives.ended_before is 'What was moved had ended before this time.';

create trigger history_archives_append_only before update or delete or truncate on concord.history_archives
  for each statement execute function concord.refuse_change();
alter table concord.history_archives enable always trigger history_archives_append_only;

alter table concord.history_archives enable row level security, force row level security;
create policy history_archives_engine on concord.history_archives to concord_engine using (true) with check (true);
create policy history_archives_app on concord.history_archives to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select on concord.history_archives to concord_engine, concord_app;

-- down
drop table concord.history_archives;
