/** Lists the people and the roles of an organisation, and who may enter a workspace. */
import type { Sql } from '#store'
import type { StoredOrgRole } from './identity-repository.ts'
import { listPersons, type PeoplePage, type StoredPerson } from './people-repository.ts'

export function listPeople(deps: { readonly db: Sql }, orgId: string, page: PeoplePage): Promise<StoredPerson[]> {
  return listPersons(deps.db, orgId, page)
}

export type OrgRolePage = { readonly afterSlug: string | null; readonly limit: number }

export function listOrgRoles(
  deps: { readonly db: Sql },
  orgId: string,
  { afterSlug, limit }: OrgRolePage,
): Promise<StoredOrgRole[]> {
  return deps.db.query<StoredOrgRole>(
    `select id, org_id, slug, name from identity.org_roles
      where org_id = $1 and ($2::text is null or slug > $2) order by slug limit $3`,
    [orgId, afterSlug, limit],
  )
}
