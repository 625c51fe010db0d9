/** The only writer of API keys, beside the note of their last use. Every look-up is by id and the caller's scope. */
import type { Sql, Tx } from '#store'
import type { Rows } from '#store/rows'

/** Never with the hash: what is not read cannot be shown. */
export type StoredApiKey = Omit<Rows['identity.api_keys'], 'key_hash'>

const KEY =
  'id, org_id, user_id, workspace_id, name, prefix, role, created_at, expires_at, revoked_at, last_used_at, is_invitation'

export type NewApiKey = Omit<StoredApiKey, 'revoked_at' | 'last_used_at'> & { readonly key_hash: Uint8Array }

export async function insertApiKey(tx: Tx, key: NewApiKey): Promise<StoredApiKey | undefined> {
  const [row] = await tx.query<StoredApiKey>(
    `insert into identity.api_keys (id, org_id, user_id, workspace_id, name, prefix, key_hash, role, created_at, expires_at, is_invitation)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) on conflict (prefix) do nothing returning ${KEY}`,
    [
      key.id,
      key.org_id,
      key.user_id,
      key.workspace_id,
      key.name,
      key.prefix,
      key.key_hash,
      key.role,
      key.created_at,
      key.expires_at,
      key.is_invitation,
    ],
  )
  return row
}

/** Which keys a caller administers: those of its org, and only those of its workspace when its own key is bound to one. */
export type KeyScope = { readonly orgId: string; readonly workspaceId: string | null }

export type KeyPage = KeyScope & { readonly beforeId: string | null; readonly limit: number }

/** Newest first: ids rise with time. */
export async function listKeys(sql: Sql, page: KeyPage): Promise<StoredApiKey[]> {
  return sql.query<StoredApiKey>(
    `select ${KEY} from identity.api_keys
      where org_id = $1 and ($2::uuid is null or workspace_id = $2) and ($3::uuid is null or id < $3)
      order by id desc limit $4`,
    [page.orgId, page.workspaceId, page.beforeId, page.limit],
  )
}

export async function findKey(sql: Sql, scope: KeyScope, keyId: string): Promise<StoredApiKey | undefined> {
  const [row] = await sql.query<StoredApiKey>(
    `select ${KEY} from identity.api_keys where org_id = $1 and ($2::uuid is null or workspace_id = $2) and id = $3`,
    [scope.orgId, scope.workspaceId, keyId],
  )
  return row
}

/** Nothing comes back when the key is revoked already: the first time stands. */
export async function saveKeyRevoked(
  tx: Tx,
  scope: KeyScope,
  keyId: string,
  at: Date,
): Promise<StoredApiKey | undefined> {
  const [row] = await tx.query<StoredApiKey>(
    `update identity.api_keys set revoked_at = $4
      where org_id = $1 and ($2::uuid is null or workspace_id = $2) and id = $3 and revoked_at is null returning ${KEY}`,
    [scope.orgId, scope.workspaceId, keyId, at],
  )
  return row
}

export async function hasKeys(sql: Sql, orgId: string, userId: string): Promise<boolean> {
  const [row] = await sql.query<{ found: boolean }>(
    'select exists (select from identity.api_keys where org_id = $1 and user_id = $2) as found',
    [orgId, userId],
  )
  return row?.found === true
}
