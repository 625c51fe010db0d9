/** The user that an outside identity provider's subject stands for, with the org and the org roles. */
import { statement } from '#store'
import type { PlatformRole } from '../platform-role.ts'

export type SubjectRow = {
  readonly user_id: string
  readonly org_id: string
  readonly org_slug: string
  readonly external_id: string
  readonly email: string | null
  readonly user_role: PlatformRole
  readonly org_roles: readonly string[]
}

export const findSubject = statement<SubjectRow>(
  'identity.find_subject',
  `select u.id as user_id, u.org_id, o.slug as org_slug, u.external_id, u.email, u.role as user_role,
          array(select r.slug
                  from identity.org_role_memberships m
                  join identity.org_roles r on r.org_id = m.org_id and r.id = m.role_id
                 where m.user_id = u.id and m.org_id = u.org_id
                 order by r.slug) as org_roles
     from identity.users u
     join identity.orgs o on o.id = u.org_id
    where u.external_id = $1 and u.deactivated_at is null`,
)
