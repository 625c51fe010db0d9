-- 0008 people: a person can leave, and a key can be an invitation.
-- Why: nobody is deleted, since decisions name them for ever; a person who left has a time in deactivated_at, and no credential of
--   theirs works from then on. Administrators do not make keys for others: they hand out an invitation, which opens nothing and is
--   exchanged once, by the person, for the first key.
-- Additions to the printed tables: users.deactivated_at. api_keys is ours.
-- Locks: two short exclusive locks; both columns have a constant default, so no row is rewritten. Reverse: drop the columns.
alter table identity.users
  add column deactivated_at timestamptz,
  add constraint users_deactivated_at_ck check (isfinite(deactivated_at));
comment on column identity.users.deactivated_at is 'Since when no credential of this person works; null: they may sign in.';

alter table identity.api_keys
  add column is_invitation boolean not null default false,
  -- An invitation that never ends would be a key under another name.
  add constraint api_keys_invitation_ck check (not is_invitation or (expires_at is not null and workspace_id is null));
comment on column identity.api_keys.is_invitation is 'Opens nothing; exchanged once for a key of the same person.';

-- down
alter table identity.api_keys drop column is_invitation;
alter table identity.users drop column deactivated_at;
