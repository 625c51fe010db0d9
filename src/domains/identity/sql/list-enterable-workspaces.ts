/** The workspaces a caller may enter, by slug; the same rule as for entering one. */
import { statement } from '#store'
import type { StoredWorkspace } from '../identity-repository.ts'

/** $1 org, $2 user, $3 the workspace the key is bound to or null, $4 slug to start after or null, $5 limit. */
export const listEnterableWorkspaces = statement<StoredWorkspace>(
  'identity.list_enterable_workspaces',
  `select w.id, w.org_id, w.slug, w.name, w.owner_user_id, r.slug as access_role, w.created_at
     from identity.workspaces w
     left join identity.org_roles r on r.org_id = w.org_id and r.id = w.access_role_id
    where w.org_id = $1
      and ($4::text is null or w.slug > $4)
      and w.archived_at is null
      and ($3::uuid is null or w.id = $3)
      and (w.access_role_id is null or w.owner_user_id = $2
           or exists (select from identity.org_role_memberships m
                       where m.org_id = w.org_id and m.role_id = w.access_role_id and m.user_id = $2))
    order by w.slug
    limit $5`,
)
