-- 0029 authors: an approval keeps through whose hands the credentials of its authors came.
-- Why: an administrator with two invited people could ask as one of them and approve as the other. A decision counts only if it is independent of
--   everybody through whose hands the credentials of the requester came, as they were when the request was made.
-- History: open approvals get the issuers that their authors have now. 0026 read and wrote tables under forced row security: for an owner who is
--   not a superuser it found no event and changed no row. Here it runs again for people and roles without issuers. An invitation that
--   waits for a second yes was not redeemed, and is not read.
-- Locks: five short exclusive locks, one pass over the journal, one over the open approvals. Reverse: remove the key from the approvals.
alter table identity.users no force row level security;
alter table identity.api_keys no force row level security;
alter table identity.org_role_memberships no force row level security;
alter table concord.journal no force row level security;
alter table concord.approvals no force row level security;

with recursive invited as (
  select distinct on (e.payload->>'user_id') (e.payload->>'user_id')::uuid as user_id, substr(e.actor, 6)::uuid as by
    from concord.domain_events e
   where e.event_type = 'user_invited' and e.actor like 'user:%' and e.payload->>'is_held' is distinct from 'true'
   order by e.payload->>'user_id', e.created_at desc, e.seq desc
), chain as (
  select user_id, by from invited
  union
  select c.user_id, i.by from chain c join invited i on i.user_id = c.by
)
update identity.users u set issuers = c.issuers
  from (select user_id, array_agg(by) as issuers from chain group by user_id) c
 where c.user_id = u.id and u.issuers = '{}'
   and exists (select from identity.api_keys k where k.user_id = u.id and not k.is_invitation);

update identity.api_keys k set issuers = array[substr(e.actor, 6)::uuid] || inviter.issuers
  from concord.domain_events e, identity.users inviter
 where k.is_invitation and k.revoked_at is null and k.issuers = '{}'
   and e.event_type = 'user_invited' and e.payload->>'key_id' = k.id::text and e.actor = 'user:' || inviter.id;

with granted as (
  select distinct on (e.payload->>'role_id', e.payload->>'user_id')
         (e.payload->>'role_id')::uuid as role_id, (e.payload->>'user_id')::uuid as user_id, substr(e.actor, 6)::uuid as by
    from concord.domain_events e
   where e.event_type = 'org_role_granted' and e.actor like 'user:%'
   order by e.payload->>'role_id', e.payload->>'user_id', e.created_at desc, e.seq desc
)
update identity.org_role_memberships m set granted_by = array[g.by] || u.issuers
  from granted g join identity.users u on u.id = g.by
 where m.role_id = g.role_id and m.user_id = g.user_id and m.granted_by = '{}';

update concord.approvals t set request_payload = t.request_payload || jsonb_build_object('issuers', a.issuers)
  from (select o.approval_id, jsonb_object_agg('user:' || u.id, to_jsonb(u.issuers)) as issuers
          from concord.approvals o
          join identity.users u on 'user:' || u.id in (o.requested_by, o.request_payload->'edits'->>'author')
         where o.status = 'pending' and u.issuers <> '{}'
         group by o.approval_id) a
 where a.approval_id = t.approval_id;

-- The triggers of the access version wait for the end of the transaction, and a table cannot be altered while they do.
set constraints all immediate;
alter table identity.users force row level security;
alter table identity.api_keys force row level security;
alter table identity.org_role_memberships force row level security;
alter table concord.journal force row level security;
alter table concord.approvals force row level security;

-- down
alter table concord.approvals no force row level security;
update concord.approvals set request_payload = request_payload - 'issuers' where request_payload ? 'issuers';
alter table concord.approvals force row level security;
