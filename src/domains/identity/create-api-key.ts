/** Creates an API key of the caller's own; the key itself is in the answer and nowhere else (I3). */
import { KernelFault } from '#kernel/errors'
import { checkInstant } from '#kernel/instant'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { mintKey } from './api-key.ts'
import { appendKeyEvent } from './events.ts'
import { parseName } from '#contract'
import { insertApiKey, type StoredApiKey } from './api-key-repository.ts'
import { holdKey, holdPerson } from './people-repository.ts'
import { isRoleAtLeast, type PlatformRole } from './platform-role.ts'
import type { Principal } from '#kernel/actor'
import { decideUnbound } from './principal.ts'
import { resolveWorkspace } from './resolve-workspace.ts'
import { byPrincipal, type IdentityDeps } from './deps.ts'

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
    // Whoever was let in a moment ago with a key that was ended since must not go on with another.
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
