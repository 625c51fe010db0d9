/** Makes an empty installation usable: one org, one workspace, one administrator and the first key; again and again the same. */
import type { Actor } from '#kernel/actor'
import { KernelFault } from '#kernel/errors'
import type { Tx } from '#store'
import { hasKeys, insertApiKey, mintKey } from './api-key.ts'
import { isWorkingKey } from './authenticate.ts'
import { bySystem, type IdentityDeps } from './deps.ts'
import { appendKeyEvent, appendOrgEvent, appendWorkspaceEvent } from './events.ts'
import {
  findOrgBySlug,
  findUserByExternalId,
  findWorkspaceBySlug,
  insertOrg,
  insertUser,
  insertWorkspace,
} from './identity-repository.ts'
import { findPerson } from './person.ts'

/** `local:` subjects sign in with keys alone; no outside identity provider can claim one (see verify-token). */
const ADMIN_EXTERNAL_ID = 'local:admin'
const DEFAULT_SLUG = 'default'
const DEFAULT_NAME = 'Default'

export type Bootstrapped = {
  readonly orgId: string
  readonly workspaceId: string
  readonly userId: string
  /** A new administrator key, only from the call that made it. */
  readonly key: string | null
}

/** Where an installation keeps its administrator key between two starts. */
export type KeyPlace = {
  /** What is kept there now, working or not. */
  read(): Promise<string | null>
  /** Called before the commit: a start that dies in between leaves a key that does not work, and the next start sees that. */
  write(key: string): Promise<void>
}

/**
 * I8: the lock makes starting processes take turns; whoever comes second finds everything there, the key in its place
 * included. Without a place the first key is made once and handed to the caller.
 */
export function bootstrapAdmin(deps: IdentityDeps, traceId: string, place?: KeyPlace): Promise<Bootstrapped> {
  const by = bySystem(traceId)
  return deps.db.transaction(async (tx) => {
    await tx.query("select pg_advisory_xact_lock(hashtextextended('concord.identity.bootstrap', 0))")
    const orgId = await ensureOrg(tx, deps, by)
    const userId = await ensureAdmin(tx, deps, by, orgId)
    const workspaceId = await ensureWorkspace(tx, deps, by, orgId, userId)
    // Whoever took over from the first administrator may have let him go: no start brings him back.
    const isGone = (await findPerson(tx, orgId, userId))?.deactivated_at instanceof Date
    const isKeyThere = isGone || (place ? await isWorkingKey(tx, await place.read()) : await hasKeys(tx, orgId, userId))
    const key = isKeyThere ? null : await createAdminKey(tx, deps, by, orgId, userId)
    if (key !== null) await place?.write(key)
    return { orgId, workspaceId, userId, key }
  })
}

async function ensureOrg(tx: Tx, deps: IdentityDeps, by: Actor): Promise<string> {
  const known = await findOrgBySlug(tx, DEFAULT_SLUG)
  if (known) return known.id
  const org = await insertOrg(tx, {
    id: deps.newId(),
    slug: DEFAULT_SLUG,
    name: DEFAULT_NAME,
    created_at: deps.now(),
  })
  if (!org) throw raced('org')
  await appendOrgEvent(tx, deps, by, {
    type: 'org_created',
    orgId: org.id,
    payload: { org_id: org.id, slug: org.slug },
  })
  return org.id
}

async function ensureAdmin(tx: Tx, deps: IdentityDeps, by: Actor, orgId: string): Promise<string> {
  const known = await findUserByExternalId(tx, orgId, ADMIN_EXTERNAL_ID)
  if (known) return known.id
  const admin = {
    id: deps.newId(),
    org_id: orgId,
    external_id: ADMIN_EXTERNAL_ID,
    email: null,
    role: 'admin',
  } as const
  const user = await insertUser(tx, { ...admin, created_at: deps.now() })
  if (!user) throw raced('user')
  await appendOrgEvent(tx, deps, by, { type: 'user_created', orgId, payload: { user_id: user.id, role: user.role } })
  return user.id
}

async function ensureWorkspace(tx: Tx, deps: IdentityDeps, by: Actor, orgId: string, userId: string): Promise<string> {
  const known = await findWorkspaceBySlug(tx, orgId, DEFAULT_SLUG)
  if (known) return known.id
  const named = { slug: DEFAULT_SLUG, name: DEFAULT_NAME, owner_user_id: userId, access_role_id: null }
  const workspace = await insertWorkspace(tx, { id: deps.newId(), org_id: orgId, ...named, created_at: deps.now() })
  if (!workspace) throw raced('workspace')
  const payload = { workspace_id: workspace.id, slug: DEFAULT_SLUG, access_role: null }
  await appendWorkspaceEvent(tx, deps, by, { type: 'workspace_created', workspaceId: workspace.id, payload })
  return workspace.id
}

async function createAdminKey(tx: Tx, deps: IdentityDeps, by: Actor, orgId: string, userId: string): Promise<string> {
  const minted = mintKey(deps.randomBytes)
  const stored = await insertApiKey(tx, {
    id: deps.newId(),
    org_id: orgId,
    user_id: userId,
    workspace_id: null,
    name: 'administrator',
    prefix: minted.prefix,
    key_hash: minted.hash,
    role: 'admin',
    created_at: deps.now(),
    expires_at: null,
    is_invitation: false,
  })
  if (!stored) throw raced('key')
  await appendKeyEvent(tx, deps, by, 'api_key_created', stored)
  return minted.key
}

/** Only a writer that does not take the lock gets here; the transaction rolls back and the next start finds its row. */
function raced(what: string): KernelFault {
  return new KernelFault('identity.bootstrap.raced', `the first ${what} was made by someone else at the same moment`)
}
