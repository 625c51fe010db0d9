/** Persons of a workspace who may act there today: not gone, let in, and more than readers. */
import { statement } from '#store'

export type ActiveRow = {
  readonly user_id: string
  readonly external_id: string
  readonly role: 'writer' | 'admin'
  readonly org_roles: readonly string[]
}

/** $1 workspace, $2 users, $3 slugs of org roles, $4 also every administrator. The rule of entering is that of `find_member`. */
export const listActiveSql = statement<ActiveRow>(
  'identity.list_active',
  `select u.id as user_id, u.external_id, u.role,
          array(select r.slug
                  from identity.org_role_memberships m
                  join identity.org_roles r on r.org_id = m.org_id and r.id = m.role_id
                 where m.user_id = u.id and m.org_id = u.org_id) as org_roles
     from identity.workspaces w
     join identity.users u on u.org_id = w.org_id
    where w.id = $1::uuid and w.archived_at is null and u.deactivated_at is null and u.role in ('writer', 'admin')
      and (u.id = any ($2::uuid[]) or ($4::boolean and u.role = 'admin')
           or u.id in (select m.user_id
                         from identity.org_roles r
                         join identity.org_role_memberships m on m.org_id = r.org_id and m.role_id = r.id
                        where r.org_id = w.org_id and r.slug = any ($3::text[])))
      and (w.access_role_id is null or w.owner_user_id = u.id
           or exists (select from identity.org_role_memberships m
                       where m.org_id = w.org_id and m.role_id = w.access_role_id and m.user_id = u.id))
    order by u.id`,
)
