-- 0020 access_version: one number that grows with every change of what a credential may do.
-- Why: a server remembers callers for a moment and must refuse a revoked key at once. The statement that writes for a remembered caller
--   compares this number with the one that was read together with the caller, so no notice can come too late.
-- Deferred: the number is raised at the commit of the change, so a transaction locks this row last and two changes do not block each other
--   in a cycle. A new key is no change, since no server remembers a refusal; the last use of a key is none either.
-- Row security: the engine's alone. The login inherits its rule, so a change that an operator makes by hand counts too.
-- Locks: six short locks for the triggers. Reverse: drop the triggers, the function and the table.
create table identity.access_version (
  only_row boolean not null default true,
  version  bigint  not null,
  constraint access_version_pk primary key (only_row),
  constraint access_version_only_row_ck check (only_row)
);
comment on table identity.access_version is 'One row; its number grows in every transaction that changes what a credential may do.';
insert into identity.access_version (version) values (1);
alter table identity.access_version enable row level security, force row level security;
create policy access_version_engine on identity.access_version to concord_engine using (true) with check (true);
grant select, update on identity.access_version to concord_engine;

create function identity.raise_access_version() returns trigger
  language plpgsql as $$
begin
  update identity.access_version set version = version + 1 where only_row;
  return null;
end
$$;

create constraint trigger api_keys_access
  after update of org_id, user_id, workspace_id, prefix, key_hash, role, expires_at, revoked_at, is_invitation or delete
  on identity.api_keys deferrable initially deferred for each row execute function identity.raise_access_version();
create constraint trigger users_access after update or delete
  on identity.users deferrable initially deferred for each row execute function identity.raise_access_version();
create constraint trigger orgs_access after update or delete
  on identity.orgs deferrable initially deferred for each row execute function identity.raise_access_version();
create constraint trigger org_roles_access after update or delete
  on identity.org_roles deferrable initially deferred for each row execute function identity.raise_access_version();
create constraint trigger org_role_memberships_access after insert or update or delete
  on identity.org_role_memberships deferrable initially deferred for each row execute function identity.raise_access_version();
create constraint trigger workspaces_access after update or delete
  on identity.workspaces deferrable initially deferred for each row execute function identity.raise_access_version();

-- down
drop trigger api_keys_access on identity.api_keys;
drop trigger users_access on identity.users;
drop trigger orgs_access on identity.orgs;
drop trigger org_roles_access on identity.org_roles;
drop trigger org_role_memberships_access on identity.org_role_memberships;
drop trigger workspaces_access on identity.workspaces;
drop function identity.raise_access_version();
drop table identity.access_version;
