-- 0026 issuers: through whose hands the credentials and the roles of a person came.
-- Why: an administrator who invites somebody sees the invitation and could redeem it. Such a person counts as the administrator when a
--   request of the administrator is decided, and so does a role that the requester granted after the request.
--   The list is transitive: it holds the inviter and everybody on the inviter's own list at that time.
--   An invitation for somebody who has keys is held until that person or a second administrator agrees.
-- History: the lists of existing people and roles come from the events of their last invitation and grant. Events that were moved to
--   archive files are not read.
-- Additions to the printed tables: users.issuers, org_role_memberships.granted_by. api_keys is ours.
-- Locks: three short exclusive locks; all defaults are constant, so no row is rewritten. One pass over the journal. Reverse: drop the columns.
alter table identity.users add column issuers uuid[] not null default '{}';
comment on column identity.users.issuers is 'Everybody through whose hands the credentials of the person came; empty for the identity provider.';
alter table identity.org_role_memberships add column granted_by uuid[] not null default '{}';
comment on column identity.org_role_memberships.granted_by is 'Who granted the role, and the issuers of that person; empty for Concord itself.';
alter table identity.api_keys
  add column issuers uuid[] not null default '{}',
  add column is_held boolean not null default false,
  add constraint api_keys_issuers_ck check (is_invitation or (issuers = '{}' and not is_held));
comment on column identity.api_keys.issuers is 'Of an invitation: who made it, and the issuers of that person.';
comment on column identity.api_keys.is_held is 'Of an invitation: it cannot be redeemed until the person or a second administrator agrees.';

with recursive invited as (
  select distinct on (e.payload->>'user_id') (e.payload->>'user_id')::uuid as user_id, substr(e.actor, 6)::uuid as by
    from concord.domain_events e
   where e.event_type = 'user_invited' and e.actor like 'user:%'
   order by e.payload->>'user_id', e.created_at desc, e.seq desc
), chain as (
  select user_id, by from invited
  union
  select c.user_id, i.by from chain c join invited i on i.user_id = c.by
)
update identity.users u set issuers = c.issuers
  from (select user_id, array_agg(by) as issuers from chain group by user_id) c
 where c.user_id = u.id and exists (select from identity.api_keys k where k.user_id = u.id and not k.is_invitation);

update identity.api_keys k set issuers = array[substr(e.actor, 6)::uuid] || inviter.issuers
  from concord.domain_events e, identity.users inviter
 where k.is_invitation and k.revoked_at is null and e.event_type = 'user_invited' and e.payload->>'key_id' = k.id::text
   and e.actor = 'user:' || inviter.id;

with granted as (
  select distinct on (e.payload->>'role_id', e.payload->>'user_id')
         (e.payload->>'role_id')::uuid as role_id, (e.payload->>'user_id')::uuid as user_id, substr(e.actor, 6)::uuid as by
    from concord.domain_events e
   where e.event_type = 'org_role_granted' and e.actor like 'user:%'
   order by e.payload->>'role_id', e.payload->>'user_id', e.created_at desc, e.seq desc
)
update identity.org_role_memberships m set granted_by = array[g.by] || u.issuers
  from granted g join identity.users u on u.id = g.by
 where m.role_id = g.role_id and m.user_id = g.user_id;

-- down
alter table identity.api_keys drop constraint api_keys_issuers_ck, drop column is_held, drop column issuers;
alter table identity.org_role_memberships drop column granted_by;
alter table identity.users drop column issuers;
