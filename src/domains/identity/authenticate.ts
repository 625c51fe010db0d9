/** Turns a bearer credential into a principal, or into the one answer that all bad credentials share (I3). */
import type { Clock } from '#kernel/clock'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import type { Sql } from '#store'
import { isSameHash, prefixOf } from './api-key.ts'
import { type KeyUse, openKeyUse } from './key-use.ts'
import { lowerRole } from './platform-role.ts'
import type { Principal } from '#kernel/actor'
import { findKeyOwner, type KeyOwnerRow } from './sql/find-key-owner.ts'
import { findSubject, type SubjectRow } from './sql/find-subject.ts'
import { type IdentityProvider, openTokenVerifier, type VerifyToken } from './verify-token.ts'

export type AuthenticatorDeps = {
  readonly db: Sql
  readonly now: Clock
  readonly provider?: IdentityProvider | undefined
  readonly onError?: ((error: unknown) => void) | undefined
}

export type Authenticator = {
  readonly authenticate: (bearer: string) => Promise<Decision<Principal>>
  /** Waits for what is still being written about used keys. */
  close(): Promise<void>
}

/** Longer than any token of an identity provider that we have seen, short enough to hash without a thought. */
const BEARER_CHARS_MAX = 8_192

export function openAuthenticator(deps: AuthenticatorDeps): Authenticator {
  const use = openKeyUse(deps.db, deps.onError ?? (() => {}))
  const verify = deps.provider && openTokenVerifier(deps.provider, deps.now)
  return {
    async authenticate(bearer) {
      if (bearer.length > BEARER_CHARS_MAX) return unauthenticated()
      if (bearer.startsWith('ck_')) return authenticateKey(deps, use, bearer)
      return verify ? authenticateToken(deps.db, verify, bearer) : unauthenticated()
    },
    close: () => use.settle(),
  }
}

/** The row of a key that works now; the database's clock decides whether it has ended. */
async function findLiveKey(db: Sql, key: string): Promise<KeyOwnerRow | undefined> {
  const prefix = prefixOf(key)
  if (prefix === undefined) return undefined
  const [row] = await db.run(findKeyOwner, [prefix])
  // The comparison happens for an unknown prefix too, so that finding a prefix by the clock is no easier.
  const same = isSameHash(key, row?.key_hash)
  return row && same && row.is_live ? row : undefined
}

export async function isWorkingKey(db: Sql, key: string | null): Promise<boolean> {
  return key !== null && (await findLiveKey(db, key)) !== undefined
}

async function authenticateKey({ db, now }: AuthenticatorDeps, use: KeyUse, key: string): Promise<Decision<Principal>> {
  const row = await findLiveKey(db, key)
  if (!row) return unauthenticated()
  use.note(row.key_id, row.last_used_at, now())
  return accept({
    ...userOf(row),
    credential: 'api_key',
    role: lowerRole(row.user_role, row.key_role),
    keyId: row.key_id,
    workspaceId: row.workspace_id,
  })
}

async function authenticateToken(db: Sql, verify: VerifyToken, token: string): Promise<Decision<Principal>> {
  const subject = await verify(token)
  if (!subject.ok) return subject.code === 'unauthenticated' ? unauthenticated() : subject
  const [row] = await db.run(findSubject, [subject.value])
  if (!row) return unauthenticated()
  return accept({ ...userOf(row), credential: 'jwt', role: row.user_role, keyId: null, workspaceId: null })
}

function userOf(row: SubjectRow | KeyOwnerRow) {
  return {
    userId: row.user_id,
    orgId: row.org_id,
    orgSlug: row.org_slug,
    externalId: row.external_id,
    email: row.email,
    orgRoles: row.org_roles,
  }
}

/** One code and one text for unknown, wrong, expired, revoked and malformed: the answer says nothing about which. */
function unauthenticated(): Refusal {
  return refuse('unauthenticated', 'This credential is not valid.', {
    hint: 'Send Authorization: Bearer with a live API key or a token of your identity provider.',
  })
}
