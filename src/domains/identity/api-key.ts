/** The form of an API key, `ck_<prefix>_<secret>`: 256 random bits that are shown once and kept only as a SHA-256 hash. */
import type { Agent, PersonActor, Principal } from '#kernel/actor'
import { createHash, timingSafeEqual } from 'node:crypto'
import { parseName } from '#contract'
import { KernelFault } from '#kernel/errors'
import { checkInstant } from '#kernel/instant'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Paged, pageText, type Sql, type Tx } from '#store'
import type { Rows } from '#store/rows'
import type { RandomBytes } from '#kernel/ids'
import type { IdentityDeps } from './deps.ts'
import { appendKeyEvent } from './events.ts'
import { insertRow } from './identity-repository.ts'
import { holdKey, holdPerson } from './person.ts'
import { decideUnbound, isRoleAtLeast, type PlatformRole, refusePerson } from './principal.ts'
import { resolveWorkspace } from './workspace.ts'

/** 48 bits: enough to find a row, and safe to show in lists and logs. */
const PREFIX_BYTES = 6
const SECRET_BYTES = 32
const KEY_FORM = /^ck_([0-9a-f]{12})_[A-Za-z0-9_-]{43}$/

export function mintKey(randomBytes: RandomBytes) {
  const prefix = Buffer.from(randomBytes(PREFIX_BYTES)).toString('hex')
  const key = `ck_${prefix}_${Buffer.from(randomBytes(SECRET_BYTES)).toString('base64url')}`
  return { key, prefix, hash: hashKey(key) }
}

/** Returns the prefix of a well-formed key, and undefined for any other text. */
export function prefixOf(key: string): string | undefined {
  return KEY_FORM.exec(key)?.[1]
}

/** A plain hash is enough for 256 random bits: there is no dictionary to slow down. */
export function hashKey(key: string): Buffer {
  return createHash('sha256').update(key, 'utf8').digest()
}

/** Compared when no row was found, so that an unknown prefix costs as much as a wrong secret. */
const NO_HASH = Buffer.alloc(32)

export function isSameHash(key: string, stored: Uint8Array | undefined): boolean {
  const known = stored !== undefined && stored.length === NO_HASH.length
  const equal = timingSafeEqual(hashKey(key), known ? stored : NO_HASH)
  return known && equal
}

/** Without the hash: a column that is never read is never shown. */
export type StoredApiKey = Omit<Rows['identity.api_keys'], 'key_hash' | 'is_agent'>

const KEY =
  'id, org_id, user_id, workspace_id, name, prefix, role, created_at, expires_at, revoked_at, last_used_at, is_invitation, agent, tools, issuers, is_held'

type NewApiKey = Pick<StoredApiKey, 'org_id' | 'user_id' | 'name' | 'role' | 'created_at'> &
  Partial<
    Pick<StoredApiKey, 'workspace_id' | 'expires_at' | 'is_invitation' | 'agent' | 'tools' | 'issuers' | 'is_held'>
  >

export type CreatedApiKey = { readonly stored: StoredApiKey; readonly key: string }

/** Stores a new key; by default it never expires and opens every workspace of its user. The result is the only place with its secret. */
export async function issueKey(tx: Tx, deps: IdentityDeps, key: NewApiKey): Promise<CreatedApiKey> {
  const minted = mintKey(deps.randomBytes)
  const stored = await insertRow<StoredApiKey>(
    tx,
    { table: 'api_keys', unique: 'prefix', returning: KEY },
    {
      id: deps.newId(),
      workspace_id: null,
      expires_at: null,
      is_invitation: false,
      agent: null,
      tools: null,
      issuers: [],
      is_held: false,
      ...key,
      prefix: minted.prefix,
      key_hash: minted.hash,
    },
  )
  if (!stored) throw new KernelFault('identity.key.prefix_taken', 'Two random key prefixes of 48 bits are equal.')
  return { stored, key: minted.key }
}

/**
 * The keys that a caller manages: an administrator those of the org, everybody else their own; and only those of the workspace that
 * the caller's own key is bound to.  $1 org, $2 workspace, $3 user.
 */
const IN_SCOPE = 'org_id = $1 and ($2::uuid is null or workspace_id = $2) and ($3::uuid is null or user_id = $3)'
const scopeOf = ({ orgId, workspaceId, role, userId }: Principal) =>
  [orgId, workspaceId, role === 'admin' ? null : userId] as const

async function findKey(sql: Sql, by: Principal, keyId: string): Promise<StoredApiKey | undefined> {
  const [row] = await sql.query<StoredApiKey>(`select ${KEY} from identity.api_keys where ${IN_SCOPE} and id = $4`, [
    ...scopeOf(by),
    keyId,
  ])
  return row
}

/** Returns undefined when the key is already revoked, and keeps the first time. */
async function saveKeyRevoked(tx: Tx, by: Principal, keyId: string, at: Date): Promise<StoredApiKey | undefined> {
  const [row] = await tx.query<StoredApiKey>(
    `update identity.api_keys set revoked_at = $5
      where ${IN_SCOPE} and id = $4 and revoked_at is null returning ${KEY}`,
    [...scopeOf(by), keyId, at],
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

export type CreateApiKey = {
  readonly name: string
  readonly role: PlatformRole
  readonly workspaceId?: string | undefined
  readonly expiresAt?: Date | undefined
  /** The agent that gets the key. */
  readonly agent?: Agent | undefined
}

const LIFE_MAX_MS = 3_653 * 86_400_000

/** Creates a key of the caller's own (I9), for the caller or for one of the caller's agents. */
export async function createApiKey(
  deps: IdentityDeps,
  actor: PersonActor,
  input: CreateApiKey,
): Promise<Decision<CreatedApiKey>> {
  const creator = actor.principal
  const allowed = decideAgentRole(input)
  if (!allowed.ok) return allowed
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
    if (own === undefined) return refusePerson()
    // A key that was revoked a moment ago must not create another.
    if (creator.keyId !== null && !(await holdKey(tx, creator.orgId, creator.keyId)))
      return refuse('unauthenticated', 'This credential is not valid.', { hint: 'It has just been revoked.' })
    for (const [whose, role] of [
      ['your user', own],
      ['your credential', creator.role],
    ] as const) {
      if (isRoleAtLeast(role, input.role)) continue
      return refuse('identity.key.role_too_high', `The role of a key cannot be above the role of ${whose}: ${role}.`, {
        path: 'role',
        facts: { role: input.role, allowed: role },
      })
    }
    const created = await issueKey(tx, deps, {
      org_id: creator.orgId,
      user_id: creator.userId,
      workspace_id: workspaceId.value,
      name: name.value,
      role: input.role,
      created_at: now,
      expires_at: input.expiresAt ?? null,
      agent: input.agent?.name ?? null,
      tools: input.agent?.tools ?? null,
    })
    await appendKeyEvent(tx, deps, actor, 'api_key_created', created.stored)
    return accept(created)
  })
}

function decideAgentRole({ role, agent }: CreateApiKey): Decision<unknown> {
  if (agent === undefined || role !== 'admin') return accept(undefined)
  return refuse('identity.key.role_too_high', 'The role of an agent cannot be above writer.', {
    path: 'role',
    facts: { role, allowed: 'writer' },
  })
}

/** A creator whose own key is bound to one workspace can name only that one; others can name any that they may enter. */
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

/** The next request with the key is refused, in every process (`caller-memory.ts`). Revoking twice keeps the first time. */
export async function revokeApiKey(
  deps: IdentityDeps,
  actor: PersonActor,
  keyId: string,
): Promise<Decision<StoredApiKey>> {
  const { principal } = actor
  return deps.db.transaction(async (tx) => {
    const revoked = await saveKeyRevoked(tx, principal, keyId, deps.now())
    if (revoked) {
      await appendKeyEvent(tx, deps, actor, 'api_key_revoked', revoked)
      return accept(revoked)
    }
    const known = await findKey(tx, principal, keyId)
    return known ? accept(known) : refuse('identity.key.not_found', 'There is no such key.', { path: 'key_id' })
  })
}

export type ApiKeyPage = { readonly beforeId: string | null; readonly limit: number }

/** Newest first, since ids increase with time. */
export function listApiKeys(
  deps: Pick<IdentityDeps, 'db'>,
  principal: Principal,
  page: ApiKeyPage,
): Promise<readonly (StoredApiKey & Paged)[]> {
  return deps.db.query(
    pageText(`select ${KEY} from identity.api_keys
      where ${IN_SCOPE} and ($4::uuid is null or id < $4)
      order by id desc limit $5`),
    [...scopeOf(principal), page.beforeId, page.limit],
  )
}
