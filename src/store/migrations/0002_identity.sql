-- 0002 identity: who there is and which workspaces they may enter.
-- Why: every other row belongs to a workspace, every workspace to one org, every identity to exactly one org.
--   Pointers inside an org are composite keys (org_id, id), so a row cannot name a role, user or workspace of another org.
--   Nothing cascades: deleting an org that still has data fails, a purge is explicit.
-- Additions to the printed tables: org_role_memberships.org_id (the composite keys need it), workspaces, api_keys.
-- Row security: concord_app reads the org of its workspace and writes nothing here; keys are checked before a workspace is
--   known, so api_keys is the engine's alone.
-- Locks: none (new tables). Reverse: drop schema identity.
create schema identity;
grant usage on schema identity to concord_engine, concord_app;

create table identity.orgs (
  id         uuid        not null default gen_random_uuid(),
  name       text        not null,
  slug       text        not null,
  settings   jsonb       not null default '{}',
  created_at timestamptz not null default now(),
  constraint orgs_pk primary key (id),
  constraint orgs_slug_uq unique (slug),
  constraint orgs_name_ck check (name <> '' and slug <> ''),
  constraint orgs_settings_ck check (jsonb_typeof(settings) = 'object'),
  constraint orgs_times_ck check (isfinite(created_at))
);

create table identity.users (
  id          uuid        not null default gen_random_uuid(),
  org_id      uuid        not null,
  external_id text        not null,
  email       text,
  role        text        not null,
  created_at  timestamptz not null default now(),
  constraint users_pk primary key (id),
  constraint users_external_id_uq unique (external_id),
  -- Target of every pointer to a user inside its org.
  constraint users_org_uq unique (org_id, id),
  constraint users_org_fk foreign key (org_id) references identity.orgs (id),
  constraint users_external_id_ck check (external_id <> ''),
  constraint users_role_ck check (role in ('reader', 'writer', 'admin')),
  constraint users_times_ck check (isfinite(created_at))
);
comment on column identity.users.external_id is 'Subject at the identity provider; unique over all orgs, so an identity has one org.';
comment on column identity.users.role is 'Platform permission; org roles decide visibility and are separate.';

create table identity.org_roles (
  id         uuid        not null default gen_random_uuid(),
  org_id     uuid        not null,
  slug       text        not null,
  name       text        not null,
  created_at timestamptz not null default now(),
  constraint org_roles_pk primary key (id),
  constraint org_roles_slug_uq unique (slug, org_id),
  constraint org_roles_org_uq unique (org_id, id),
  constraint org_roles_org_fk foreign key (org_id) references identity.orgs (id),
  constraint org_roles_name_ck check (name <> '' and slug <> ''),
  constraint org_roles_times_ck check (isfinite(created_at))
);

create table identity.org_role_memberships (
  role_id    uuid        not null,
  user_id    uuid        not null,
  created_at timestamptz not null default now(),
  org_id     uuid        not null,
  constraint org_role_memberships_pk primary key (role_id, user_id),
  constraint org_role_memberships_role_fk foreign key (org_id, role_id) references identity.org_roles (org_id, id),
  constraint org_role_memberships_user_fk foreign key (org_id, user_id) references identity.users (org_id, id),
  constraint org_role_memberships_times_ck check (isfinite(created_at))
);
create index idx_org_role_memberships_user on identity.org_role_memberships (user_id);

create table identity.workspaces (
  id             uuid        not null default gen_random_uuid(),
  org_id         uuid        not null,
  slug           text        not null,
  name           text        not null,
  owner_user_id  uuid,
  access_role_id uuid,
  created_at     timestamptz not null default now(),
  archived_at    timestamptz,
  constraint workspaces_pk primary key (id),
  constraint workspaces_slug_uq unique (slug, org_id),
  constraint workspaces_org_uq unique (org_id, id),
  constraint workspaces_org_fk foreign key (org_id) references identity.orgs (id),
  constraint workspaces_owner_fk foreign key (org_id, owner_user_id) references identity.users (org_id, id),
  constraint workspaces_access_role_fk foreign key (org_id, access_role_id) references identity.org_roles (org_id, id),
  constraint workspaces_name_ck check (name <> '' and slug <> ''),
  constraint workspaces_times_ck check (isfinite(created_at) and isfinite(archived_at))
);
comment on column identity.workspaces.access_role_id is 'When set, only its members and the owner may enter; null lets everyone of the org in.';

create table identity.api_keys (
  id           uuid        not null default gen_random_uuid(),
  org_id       uuid        not null,
  user_id      uuid        not null,
  workspace_id uuid,
  name         text        not null,
  prefix       text        not null,
  key_hash     bytea       not null,
  role         text        not null,
  created_at   timestamptz not null default now(),
  expires_at   timestamptz,
  revoked_at   timestamptz,
  last_used_at timestamptz,
  constraint api_keys_pk primary key (id),
  constraint api_keys_prefix_uq unique (prefix),
  constraint api_keys_key_hash_uq unique (key_hash),
  constraint api_keys_user_fk foreign key (org_id, user_id) references identity.users (org_id, id),
  constraint api_keys_workspace_fk foreign key (org_id, workspace_id) references identity.workspaces (org_id, id),
  constraint api_keys_name_ck check (name <> '' and prefix <> ''),
  -- 32 bytes is SHA-256; a key stored in clear by mistake does not fit.
  constraint api_keys_key_hash_ck check (octet_length(key_hash) = 32),
  constraint api_keys_role_ck check (role in ('reader', 'writer', 'admin')),
  constraint api_keys_times_ck check (isfinite(created_at) and isfinite(expires_at) and isfinite(revoked_at) and isfinite(last_used_at))
) with (fillfactor = 50);
create index api_keys_user_ix on identity.api_keys (user_id);
comment on column identity.api_keys.key_hash is 'SHA-256 of the key; the key itself is shown once and never stored.';
comment on column identity.api_keys.role is 'Upper bound; at use time the lower of this and the role of the user counts.';
comment on column identity.api_keys.workspace_id is 'Null: every workspace that the user may enter.';

-- The org of the transaction's workspace, set_config('concord.workspace_id', …, true). Unset is null, and null equals nothing.
create function identity.current_org_id() returns uuid
  language sql stable parallel safe
  return (select w.org_id from identity.workspaces w where w.id = nullif(current_setting('concord.workspace_id', true), '')::uuid);

alter table identity.orgs enable row level security, force row level security;
alter table identity.users enable row level security, force row level security;
alter table identity.org_roles enable row level security, force row level security;
alter table identity.org_role_memberships enable row level security, force row level security;
alter table identity.workspaces enable row level security, force row level security;
alter table identity.api_keys enable row level security, force row level security;

create policy orgs_engine on identity.orgs to concord_engine using (true) with check (true);
create policy users_engine on identity.users to concord_engine using (true) with check (true);
create policy org_roles_engine on identity.org_roles to concord_engine using (true) with check (true);
create policy org_role_memberships_engine on identity.org_role_memberships to concord_engine using (true) with check (true);
create policy workspaces_engine on identity.workspaces to concord_engine using (true) with check (true);
create policy api_keys_engine on identity.api_keys to concord_engine using (true) with check (true);

-- (select …) makes the org one look-up per statement instead of one per row.
create policy orgs_app on identity.orgs for select to concord_app using (id = (select identity.current_org_id()));
create policy users_app on identity.users for select to concord_app using (org_id = (select identity.current_org_id()));
create policy org_roles_app on identity.org_roles for select to concord_app using (org_id = (select identity.current_org_id()));
create policy org_role_memberships_app on identity.org_role_memberships for select to concord_app
  using (org_id = (select identity.current_org_id()));
create policy workspaces_app on identity.workspaces for select to concord_app
  using (id = nullif(current_setting('concord.workspace_id', true), '')::uuid);

grant select, insert, update on identity.orgs, identity.users, identity.org_roles, identity.workspaces, identity.api_keys
  to concord_engine;
-- Leaving a role is a delete; everything else is archived or revoked.
grant select, insert, delete on identity.org_role_memberships to concord_engine;
grant select on identity.orgs, identity.users, identity.org_roles, identity.org_role_memberships, identity.workspaces
  to concord_app;

-- down
drop policy orgs_app on identity.orgs;
drop policy users_app on identity.users;
drop policy org_roles_app on identity.org_roles;
drop policy org_role_memberships_app on identity.org_role_memberships;
drop function identity.current_org_id();
drop table identity.api_keys;
drop table identity.workspaces;
drop table identity.org_role_memberships;
drop table identity.org_roles;
drop table identity.users;
drop table identity.orgs;
drop schema identity;
