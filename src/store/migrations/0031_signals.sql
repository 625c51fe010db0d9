-- 0031 signals: events from outside that commands wait for, and the waits themselves.
-- Why: a command may wait for an event that another system reports. The event may come before the wait, even before the command, and must not be lost.
--   A signal ends every wait for its name and key that is open. If there is none, it is kept, and ends the first wait that begins.
--   The writers of both tables take a lock for the name and the key, so a signal and a wait of the same instant see each other.
-- sent_id is the id that the sender gave it: the same id of one sender is received once, for as long as the row is kept. content_hash tells a repetition from another signal.
-- Indexes: signals_sent_uq for a repetition; signals_kept_ix for the oldest kept signal of a wait that begins; signals_age_ix for the sweep;
--   signal_waits_open_ix for the waits that a signal ends; signal_waits_signal_ix for the waits that have a signal: of the sweep, which deletes a signal when
--   no wait names it, and of a wait that begins; signal_waits_age_ix for the sweep.
-- Both tables are ours. Locks: none on existing rows. Reverse: drop both.
create table concord.signals (
  signal_id    uuid                not null,
  workspace_id uuid                not null,
  name         concord.filled_text not null,
  key          concord.filled_text not null,
  payload      concord.object_json not null,
  sent_id      concord.filled_text not null,
  content_hash concord.filled_text not null,
  sent_by      concord.filled_text not null,
  created_at   concord.finite_time not null,
  taken_at     concord.finite_time,
  constraint signals_pk primary key (signal_id, workspace_id),
  constraint signals_workspace_fk foreign key (workspace_id) references identity.workspaces (id),
  constraint signals_sent_uq unique (sent_id, sent_by, workspace_id),
  constraint signals_name_ck check (char_length(name) <= 100),
  constraint signals_key_ck check (char_length(key) <= 255),
  constraint signals_sent_ck check (char_length(sent_id) <= 500)
);
create index signals_kept_ix on concord.signals (workspace_id, name, key, created_at, signal_id) where taken_at is null;
create index signals_age_ix on concord.signals (created_at);
comment on table concord.signals is 'Events from outside, each received once.';
comment on column concord.signals.sent_id is 'The id that the sender gave it.';
comment on column concord.signals.taken_at is 'When it ended its first wait. Null: it is kept, unless a wait that is not over has it.';
alter table concord.signals enable row level security, force row level security;
create policy signals_engine on concord.signals to concord_engine using (true) with check (true);
create policy signals_app on concord.signals to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select, insert, update, delete on concord.signals to concord_engine;
grant select on concord.signals to concord_app;

create table concord.signal_waits (
  domain_effect_id uuid                not null,
  workspace_id     uuid                not null,
  command_id       uuid                not null,
  name             concord.filled_text not null,
  key              concord.filled_text not null,
  sent_by          concord.filled_text,
  signal_id        uuid,
  created_at       concord.finite_time not null,
  constraint signal_waits_pk primary key (domain_effect_id, workspace_id),
  constraint signal_waits_effect_fk foreign key (domain_effect_id, workspace_id) references concord.domain_effects (domain_effect_id, workspace_id),
  constraint signal_waits_command_fk foreign key (workspace_id, command_id) references concord.commands (workspace_id, command_id),
  constraint signal_waits_signal_fk foreign key (signal_id, workspace_id) references concord.signals (signal_id, workspace_id)
);
create index signal_waits_open_ix on concord.signal_waits (workspace_id, name, key) where signal_id is null;
create index signal_waits_signal_ix on concord.signal_waits (signal_id) where signal_id is not null;
create index signal_waits_age_ix on concord.signal_waits (created_at);
comment on table concord.signal_waits is 'Effects that wait for a signal. A wait whose time has passed is deleted.';
comment on column concord.signal_waits.sent_by is 'The only sender whose signal counts. Null: any.';
comment on column concord.signal_waits.signal_id is 'The signal that ends the wait.';
alter table concord.signal_waits enable row level security, force row level security;
create policy signal_waits_engine on concord.signal_waits to concord_engine using (true) with check (true);
create policy signal_waits_app on concord.signal_waits to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select, insert, update, delete on concord.signal_waits to concord_engine;
grant select on concord.signal_waits to concord_app;

-- down
drop table concord.signal_waits;
drop table concord.signals;
