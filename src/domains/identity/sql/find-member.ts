/** A person of a workspace as they stand today: role, org roles, and whether they may still enter. */
import { statement } from '#store'
import type { SubjectRow } from './find-subject.ts'

/** $1 user, $2 workspace. No row when the person left, or the workspace is archived or closed to them. */
export const findMemberRow = statement<SubjectRow>(
  'identity.find_member',
  `select u.id as user_id, u.org_id, o.slug as org_slug, u.external_id, u.email, u.role as user_role,
          array(select r.slug
                  from identity.org_role_memberships m
                  join identity.org_roles r on r.org_id = m.org_id and r.id = m.role_id
                 where m.user_id = u.id and m.org_id = u.org_id
                 order by r.slug) as org_roles
     from identity.users u
     join identity.orgs o on o.id = u.org_id
     join identity.workspaces w on w.org_id = u.org_id
    where u.id = $1::uuid and u.deactivated_at is null and w.id = $2::uuid and w.archived_at is null
      and (w.access_role_id is null or w.owner_user_id = u.id
           or exists (select from identity.org_role_memberships m
                       where m.org_id = w.org_id and m.role_id = w.access_role_id and m.user_id = u.id))`,
)
