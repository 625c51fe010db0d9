/** The form of an API key, `ck_<prefix>_<secret>`: 256 random bits that are shown once and kept only as a SHA-256 hash. */
import type { Principal } from '#kernel/actor'
import { createHash, timingSafeEqual } from 'node:crypto'
import { parseName } from '#contract'
import { KernelFault } from '#kernel/errors'
import { checkInstant } from '#kernel/instant'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Sql, Tx } from '#store'
import type { Rows } from '#store/rows'
import { byPrincipal, type IdentityDeps } from './deps.ts'
import { appendKeyEvent } from './events.ts'
import { holdKey, holdPerson } from './person.ts'
import { decideUnbound, isRoleAtLeast, type PlatformRole } from './principal.ts'
import { resolveWorkspace } from './workspace.ts'

/** 48 bits: enough to find a row, and safe to show in lists and logs. */
const PREFIX_BYTES = 6
const SECRET_BYTES = 32
const KEY_FORM = /^ck_([0-9a-f]{12})_[A-Za-z0-9_-]{43}$/

export type RandomBytes = (count: number) => Uint8Array

export type MintedKey = { readonly key: string; readonly prefix: string; readonly hash: Buffer }

export function mintKey(randomBytes: RandomBytes): MintedKey {
  const prefix = Buffer.from(randomBytes(PREFIX_BYTES)).toString('hex')
  const key = `ck_${prefix}_${Buffer.from(randomBytes(SECRET_BYTES)).toString('base64url')}`
  return { key, prefix, hash: hashKey(key) }
}

/** The prefix of a well-formed key; everything else is no key of ours. */
export function prefixOf(key: string): string | undefined {
  return KEY_FORM.exec(key)?.[1]
}

/** A plain hash is enough for 256 random bits: there is no dictionary to slow down. */
export function hashKey(key: string): Buffer {
  return createHash('sha256').update(key, 'utf8').digest()
}

/** Stands in where no row was found, so that an unknown prefix costs the same comparison as a wrong tail. */
const NO_HASH = Buffer.alloc(32)

export function isSameHash(key: string, stored: Uint8Array | undefined): boolean {
  const known = stored !== undefined && stored.length === NO_HASH.length
  const equal = timingSafeEqual(hashKey(key), known ? stored : NO_HASH)
  return known && equal
}

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
type KeyScope = { readonly orgId: string; readonly workspaceId: string | null }

type KeyPage = KeyScope & { readonly beforeId: string | null; readonly limit: number }

/** Newest first: ids rise with time. */
async function listKeys(sql: Sql, page: KeyPage): Promise<StoredApiKey[]> {
  return sql.query<StoredApiKey>(
    `select ${KEY} from identity.api_keys
      where org_id = $1 and ($2::uuid is null or workspace_id = $2) and ($3::uuid is null or id < $3)
      order by id desc limit $4`,
    [page.orgId, page.workspaceId, page.beforeId, page.limit],
  )
}

async function findKey(sql: Sql, scope: KeyScope, keyId: string): Promise<StoredApiKey | undefined> {
  const [row] = await sql.query<StoredApiKey>(
    `select ${KEY} from identity.api_keys where org_id = $1 and ($2::uuid is null or workspace_id = $2) and id = $3`,
    [scope.orgId, scope.workspaceId, keyId],
  )
  return row
}

/** Nothing comes back when the key is revoked already: the first time stands. */
async function saveKeyRevoked(tx: Tx, scope: KeyScope, keyId: string, at: Date): Promise<StoredApiKey | undefined> {
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

/** Creates an API key of the caller's own; the key itself is in the answer and nowhere else (I3). */
export type CreateApiKey = {
  readonly name: string
  readonly role: PlatformRole
  readonly workspaceId?: string | undefined
  readonly expiresAt?: Date | undefined
}

export type CreatedApiKey = { readonly stored: StoredApiKey; readonly key: string }

const LIFE_MAX_MS = 3_653 * 86_400_000

export async function createApiKey(
  deps: IdentityDeps,
  creator: Principal,
  traceId: string,
  input: CreateApiKey,
): Promise<Decision<CreatedApiKey>> {
  const name = parseName(input.name)
  if (!name.ok) return { ...name, path: 'name' }
  const now = deps.now()
  if (input.expiresAt) {
    const checked = checkInstant(input.expiresAt, { after: now, until: new Date(now.getTime() + LIFE_MAX_MS) })
    if (!checked.ok) return { ...checked, path: 'expires_at' }
  }
  const workspaceId = await decideWorkspace(deps, creator, input.workspaceId)
  if (!workspaceId.ok) return workspaceId
  return deps.db.transaction(async (tx) => {
    const own = await holdPerson(tx, creator.orgId, creator.userId)
    if (own === undefined) return refuse('identity.user.not_found', 'There is no such user.')
    // A key that was revoked a moment ago must not create another.
    if (creator.keyId !== null && !(await holdKey(tx, creator.orgId, creator.keyId)))
      return refuse('unauthenticated', 'This credential is not valid.', { hint: 'It has been ended meanwhile.' })
    for (const [whose, role] of [
      ['the user', own],
      ['your credential', creator.role],
    ] as const) {
      if (isRoleAtLeast(role, input.role)) continue
      return refuse('identity.key.role_too_high', `A key may not have more than ${whose}: ${role}.`, {
        path: 'role',
        facts: { role: input.role, allowed: role },
      })
    }
    const minted = mintKey(deps.randomBytes)
    const stored = await insertApiKey(tx, {
      id: deps.newId(),
      org_id: creator.orgId,
      user_id: creator.userId,
      workspace_id: workspaceId.value,
      name: name.value,
      prefix: minted.prefix,
      key_hash: minted.hash,
      role: input.role,
      created_at: now,
      expires_at: input.expiresAt ?? null,
      is_invitation: false,
    })
    if (!stored) throw new KernelFault('identity.key.prefix_taken', 'two random key prefixes of 48 bits were equal')
    await appendKeyEvent(tx, deps, byPrincipal(creator, traceId), 'api_key_created', stored)
    return accept({ stored, key: minted.key })
  })
}

/** A creator whose own key opens one workspace can only hand on that one; others may name any they can enter themselves. */
async function decideWorkspace(
  deps: IdentityDeps,
  creator: Principal,
  asked: string | undefined,
): Promise<Decision<string | null>> {
  if (asked === undefined) {
    const unbound = decideUnbound(creator)
    return unbound.ok ? unbound : { ...unbound, path: 'workspace_id', hint: 'Name your workspace.' }
  }
  const found = await resolveWorkspace(deps, creator, { idHeader: asked })
  return found.ok ? accept(found.value.id) : { ...found, path: 'workspace_id' }
}

/** Revokes an API key at once: the next request with it is refused, since nothing about keys is cached. */
export async function revokeApiKey(
  deps: IdentityDeps,
  principal: Principal,
  traceId: string,
  keyId: string,
): Promise<Decision<StoredApiKey>> {
  const scope = { orgId: principal.orgId, workspaceId: principal.workspaceId }
  return deps.db.transaction(async (tx) => {
    const revoked = await saveKeyRevoked(tx, scope, keyId, deps.now())
    if (revoked) {
      await appendKeyEvent(tx, deps, byPrincipal(principal, traceId), 'api_key_revoked', revoked)
      return accept(revoked)
    }
    // Revoking twice is no mistake; the first time stands.
    const known = await findKey(tx, scope, keyId)
    return known ? accept(known) : refuse('identity.key.not_found', 'There is no such key.', { path: 'key_id' })
  })
}

/** Lists the API keys that a caller administers, newest first, never with their hash. */
export type ApiKeyPage = { readonly beforeId: string | null; readonly limit: number }

export function listApiKeys(
  deps: Pick<IdentityDeps, 'db'>,
  principal: Principal,
  page: ApiKeyPage,
): Promise<readonly StoredApiKey[]> {
  return listKeys(deps.db, { orgId: principal.orgId, workspaceId: principal.workspaceId, ...page })
}
