-- 0001 roles: the two database roles that the service acts as.
-- Why: the login owns the tables and migrates them; it never serves requests. The pool acts as concord_engine
--   (options=-c role=concord_engine), request-scoped work as concord_app (set local role + concord.workspace_id).
--   Row security binds both, since neither is owner, superuser or BYPASSRLS. SET ROLE is checked against the login, so the
--   login is a member of both; it inherits, since forced row security leaves an owner without a rule no rows at all.
--   This wall stops a forgotten filter; it does not stop someone who can run SQL of his own.
-- Races: roles belong to the cluster, advisory locks to one database. Twenty databases migrating at once meet on pg_authid and
--   pg_auth_members: the loser waits for the winner's commit, fails on the unique index, looks again and finds the role.
-- Locks: none. Reverse: what this database granted goes; the roles stay, since other databases of the cluster may use them.
do $roles$
declare
  tries integer := 0;
begin
  loop
    begin
      if not exists (select from pg_roles where rolname = 'concord_app') then
        create role concord_app nologin nosuperuser nocreatedb nocreaterole nobypassrls;
      end if;
      if not exists (select from pg_roles where rolname = 'concord_engine') then
        create role concord_engine nologin nosuperuser nocreatedb nocreaterole nobypassrls;
      end if;
      if not exists (
        select from pg_auth_members
        where roleid = 'concord_app'::regrole and member = 'concord_engine'::regrole and inherit_option and set_option
      ) then
        grant concord_app to concord_engine with inherit true, set true;
      end if;
      if not exists (
        select from pg_auth_members
        where roleid = 'concord_engine'::regrole and member = current_user::regrole and inherit_option and set_option
      ) then
        grant concord_engine to current_user with inherit true, set true;
      end if;
      if not exists (
        select from pg_auth_members
        where roleid = 'concord_app'::regrole and member = current_user::regrole and inherit_option and set_option
      ) then
        grant concord_app to current_user with inherit true, set true;
      end if;
      exit;
    exception
      -- XX000 is "tuple concurrently updated": two grants of one role at the same moment.
      when duplicate_object or unique_violation or internal_error then
        tries := tries + 1;
        if tries >= 100 then
          raise;
        end if;
        perform pg_sleep(0.01 + random() * 0.04);
    end;
  end loop;
end
$roles$;

-- The service reads its schema version through the pool.
grant select on public.concord_migrations to concord_engine;

-- down
revoke select on public.concord_migrations from concord_engine;
