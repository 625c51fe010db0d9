/** Lists the API keys that a caller administers, newest first, never with their hash. */
import { listKeys, type StoredApiKey } from './api-key-repository.ts'
import type { Principal } from '#kernel/actor'
import type { IdentityDeps } from './deps.ts'

export type ApiKeyPage = { readonly beforeId: string | null; readonly limit: number }

export function listApiKeys(
  deps: Pick<IdentityDeps, 'db'>,
  principal: Principal,
  page: ApiKeyPage,
): Promise<readonly StoredApiKey[]> {
  return listKeys(deps.db, { orgId: principal.orgId, workspaceId: principal.workspaceId, ...page })
}
