/** A workspace by id or slug, found only if the caller may enter it: unknown, foreign and closed are one empty answer. */
import { statement } from '#store'
import type { StoredWorkspace } from '../identity-repository.ts'

/**
 * $1 org, $2 user, $3 the workspace the key is bound to or null, $4 id or null, $5 slug or null.
 * The rule has no case for administrators (I7): the owner, the members of the access role, or everyone where no role is set.
 */
export const findEnterableWorkspace = statement<StoredWorkspace>(
  'identity.find_enterable_workspace',
  `select w.id, w.org_id, w.slug, w.name, w.owner_user_id, r.slug as access_role, w.created_at
     from identity.workspaces w
     left join identity.org_roles r on r.org_id = w.org_id and r.id = w.access_role_id
    where w.org_id = $1
      and (w.id = $4::uuid or w.slug = $5)
      and w.archived_at is null
      and ($3::uuid is null or w.id = $3)
      and (w.access_role_id is null or w.owner_user_id = $2
           or exists (select from identity.org_role_memberships m
                       where m.org_id = w.org_id and m.role_id = w.access_role_id and m.user_id = $2))`,
)
