/** Makes an empty installation usable: one org, one workspace, one administrator and the first key. Every further call changes nothing. */
import { type Actor, bySystem } from '#kernel/actor'
import { KernelFault } from '#kernel/errors'
import type { Tx } from '#store'
import { hasKeys, issueKey } from './api-key.ts'
import { isWorkingKey } from './authenticate.ts'
import type { IdentityDeps } from './deps.ts'
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

/** `local:` subjects sign in with keys only; no identity provider can claim one (see `authenticate.ts`). */
const ADMIN_EXTERNAL_ID = 'local:admin'
const DEFAULT_SLUG = 'default'
const DEFAULT_NAME = 'Default'

export type Bootstrapped = {
  readonly orgId: string
  readonly workspaceId: string
  readonly userId: string
  /** The new key of the administrator, or null when one exists. */
  readonly key: string | null
}

/** The place where an installation keeps the key of its administrator between two starts. */
export type KeyPlace = {
  /** Returns the stored key, working or not. */
  read(): Promise<string | null>
  /** Called before the commit: a start that dies in between leaves a key that does not work, and the next start detects it. */
  write(key: string): Promise<void>
}

/**
 * I8: a lock serialises starting processes, so the second one finds everything, including the key in its place. Without a place
 * the first key is created once and returned to the caller.
 */
export function bootstrapAdmin(deps: IdentityDeps, traceId: string, place?: KeyPlace): Promise<Bootstrapped> {
  const actor = bySystem(traceId)
  return deps.db.transaction(async (tx) => {
    await tx.query("select pg_advisory_xact_lock(hashtextextended('concord.identity.bootstrap', 0))")
    const orgId = await ensureOrg(tx, deps, actor)
    const userId = await ensureAdmin(tx, deps, actor, orgId)
    const workspaceId = await ensureWorkspace(tx, deps, actor, orgId, userId)
    // Another administrator may have deactivated the first one: a start does not reactivate them.
    const isGone = (await findPerson(tx, orgId, userId))?.deactivated_at instanceof Date
    const isKeyThere = isGone || (place ? await isWorkingKey(tx, await place.read()) : await hasKeys(tx, orgId, userId))
    if (isKeyThere) return { orgId, workspaceId, userId, key: null }
    const admin = { org_id: orgId, user_id: userId, name: 'administrator', role: 'admin' } as const
    const { stored, key } = await issueKey(tx, deps, { ...admin, created_at: deps.now() })
    await appendKeyEvent(tx, deps, actor, 'api_key_created', stored)
    await place?.write(key)
    return { orgId, workspaceId, userId, key }
  })
}

async function ensureOrg(tx: Tx, deps: IdentityDeps, actor: Actor): Promise<string> {
  const known = await findOrgBySlug(tx, DEFAULT_SLUG)
  if (known) return known.id
  const org = await insertOrg(tx, {
    id: deps.newId(),
    slug: DEFAULT_SLUG,
    name: DEFAULT_NAME,
    created_at: deps.now(),
  })
  if (!org) throw raced('org')
  await appendOrgEvent(tx, deps, actor, {
    type: 'org_created',
    orgId: org.id,
    payload: { org_id: org.id, slug: org.slug },
  })
  return org.id
}

async function ensureAdmin(tx: Tx, deps: IdentityDeps, actor: Actor, orgId: string): Promise<string> {
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
  await appendOrgEvent(tx, deps, actor, { type: 'user_created', orgId, payload: { user_id: user.id, role: user.role } })
  return user.id
}

async function ensureWorkspace(
  tx: Tx,
  deps: IdentityDeps,
  actor: Actor,
  orgId: string,
  userId: string,
): Promise<string> {
  const known = await findWorkspaceBySlug(tx, orgId, DEFAULT_SLUG)
  if (known) return known.id
  const named = { slug: DEFAULT_SLUG, name: DEFAULT_NAME, owner_user_id: userId, access_role_id: null }
  const workspace = await insertWorkspace(tx, { id: deps.newId(), org_id: orgId, ...named, created_at: deps.now() })
  if (!workspace) throw raced('workspace')
  const payload = { workspace_id: workspace.id, slug: DEFAULT_SLUG, access_role: null }
  await appendWorkspaceEvent(tx, deps, actor, { type: 'workspace_created', workspaceId: workspace.id, payload })
  return workspace.id
}

/** Only a writer without the lock causes this; the transaction rolls back, and the next start finds the row. */
function raced(what: string): KernelFault {
  return new KernelFault('identity.bootstrap.raced', `Another writer created the first ${what} at the same moment.`)
}
