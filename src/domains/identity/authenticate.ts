/** Resolves a bearer credential to a principal, or refuses all invalid credentials with one answer (I3). */
import type { Principal } from '#kernel/actor'
import {
  createLocalJWKSet,
  createRemoteJWKSet,
  decodeJwt,
  errors,
  type JSONWebKeySet,
  jwtVerify,
  type JWTVerifyGetKey,
} from 'jose'
import type { Clock } from '#kernel/clock'
import { parseName } from '#contract'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { type Sql, statement } from '#store'
import { isSameHash, prefixOf } from './api-key.ts'
import { type Callers, type Looked, openCallers } from './caller-memory.ts'
import { mayEnter, SUBJECT, type SubjectRow, userOf } from './member.ts'
import { lowerRole, type PlatformRole } from './principal.ts'
import {
  pickWorkspace,
  refuseWorkspace,
  resolveWorkspace,
  WORKSPACE,
  type Workspace,
  type WorkspaceSources,
} from './workspace.ts'

type KeyOwnerRow = SubjectRow & {
  readonly key_id: string
  readonly key_hash: Buffer
  readonly key_role: PlatformRole
  readonly workspace_id: string | null
  readonly agent: string | null
  readonly tools: readonly string[] | null
  /** Not expired by the clock of the database, not revoked, not an invitation, and of a person who has not left. */
  readonly is_live: boolean
  readonly last_used_at: Date | null
}

const KEY_OWNER = `k.id as key_id, k.key_hash, k.role as key_role, k.workspace_id, k.agent, k.tools, k.last_used_at,
          k.revoked_at is null and (k.expires_at is null or k.expires_at > statement_timestamp())
            and not k.is_invitation and u.deactivated_at is null as is_live,
          ${SUBJECT}`
const FROM_KEYS = `from identity.api_keys k
     join identity.users u on u.org_id = k.org_id and u.id = k.user_id
     join identity.orgs o on o.id = u.org_id`

const findKeyOwner = statement<KeyOwnerRow>(
  'identity.find_key_owner',
  `select ${KEY_OWNER} ${FROM_KEYS} where k.prefix = $1`,
)

type CallerRow = KeyOwnerRow & {
  readonly workspace: (Omit<Workspace, 'created_at'> & { readonly created_at: string }) | null
  readonly access_version: string
  /** Until the key expires, by the clock of the database; null if it never does. */
  readonly left_ms: number | null
}

/**
 * The key, its owner and the workspace of a request, with the version of all rights that belongs to them. $1 prefix, $2 id and $3 slug of the
 * workspace, $4 whether they are the default of the installation: the workspace of a bound key goes before it.
 */
const findCaller = statement<CallerRow>(
  'identity.find_caller',
  `select ${KEY_OWNER}, v.version as access_version, row_to_json(e) as workspace,
          (extract(epoch from k.expires_at - statement_timestamp()) * 1000)::float8 as left_ms
     ${FROM_KEYS}
     join identity.access_version v on v.only_row
     left join lateral (${WORKSPACE}
       where w.org_id = k.org_id
         and (w.id = coalesce(case when $4::boolean then k.workspace_id end, $2::uuid) or w.slug = $3)
         and w.archived_at is null
         and (k.workspace_id is null or w.id = k.workspace_id)
         and ${mayEnter('u.id')}) e on true
    where k.prefix = $1`,
)

/** $1 subject at the identity provider. */
const findSubject = statement<SubjectRow>(
  'identity.find_subject',
  `select ${SUBJECT}
     from identity.users u
     join identity.orgs o on o.id = u.org_id
    where u.external_id = $1 and u.deactivated_at is null`,
)

/** $1 key, $2 now. The condition decides, so two processes in the same minute write once. */
const touchKey = statement<never>(
  'identity.touch_key',
  `update identity.api_keys
      set last_used_at = $2
    where id = $1 and (last_used_at is null or last_used_at <= $2::timestamptz - interval '1 minute')`,
)

/** The last use of a key is written at most once a minute, and no request waits for it. */
const EVERY_MS = 60_000

export type KeyUse = {
  /** Returns immediately; writes in the background, and only when the last write is a minute old. */
  note(keyId: string, lastUsedAt: Date | null, now: Date): void
  /** Waits for pending writes. */
  settle(): Promise<void>
}

export function openKeyUse(db: Sql, onError: (error: unknown) => void): KeyUse {
  const underWay = new Map<string, Promise<void>>()
  return {
    note(keyId, lastUsedAt, now) {
      const due = lastUsedAt === null || now.getTime() - lastUsedAt.getTime() >= EVERY_MS
      if (!due || underWay.has(keyId)) return
      const write = db
        .run(touchKey, [keyId, now])
        // A lost write costs only accuracy; the request itself reports a database that is down.
        .then(() => {}, onError)
        .finally(() => underWay.delete(keyId))
      underWay.set(keyId, write)
    },
    async settle() {
      await Promise.all(underWay.values())
    },
  }
}

/** An external identity provider. Its tokens are checked for issuer, audience, time, signature and an allowed algorithm. */
export type IdentityProvider = {
  readonly issuer: string
  readonly audience: string
  /** The source of its signing keys; fetched again when a token names an unknown key, so that keys can rotate. */
  readonly jwks: { readonly url: string } | { readonly keys: JSONWebKeySet }
  readonly algorithms?: readonly string[]
  readonly clockToleranceS?: number
  /** A token that is valid for longer is refused; a day by default. */
  readonly lifetimeMaxMs?: number
  /** The shortest time between two fetches, so that a flood of forged tokens causes no more of them. */
  readonly jwksCooldownMs?: number
}

/** Returns the subject of a valid token. */
type VerifyToken = (token: string, audience: string | undefined) => Promise<Decision<string>>

/** Signatures only: with a shared secret, a verifier could also sign. */
const ALGORITHMS = ['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA', 'Ed25519'] as const
const JWKS_TIMEOUT_MS = 3_000

function openKeys({ jwks, jwksCooldownMs = 30_000 }: IdentityProvider): JWTVerifyGetKey {
  if ('keys' in jwks) return createLocalJWKSet(jwks.keys)
  return createRemoteJWKSet(new URL(jwks.url), { cooldownDuration: jwksCooldownMs, timeoutDuration: JWKS_TIMEOUT_MS })
}

const LIFETIME_MAX_MS = 86_400_000

function openTokenVerifier(provider: IdentityProvider, now: Clock): VerifyToken {
  const keys = openKeys(provider)
  const { clockToleranceS: toleranceS = 5, lifetimeMaxMs = LIFETIME_MAX_MS } = provider
  return async (token, audience = provider.audience) => {
    try {
      const atS = Math.floor(now().getTime() / 1_000)
      const { payload } = await jwtVerify(token, keys, {
        issuer: provider.issuer,
        audience,
        algorithms: [...(provider.algorithms ?? ALGORITHMS)],
        clockTolerance: toleranceS,
        requiredClaims: ['sub', 'exp'],
        currentDate: new Date(atS * 1_000),
      })
      const { sub = '', exp = 0, iat = atS } = payload
      // A stolen token must end soon, and a token from the future shows a clock or a provider that cannot be trusted.
      if (iat > atS + toleranceS || (exp - iat) * 1_000 > lifetimeMaxMs) return refused()
      // `local:` is reserved for people of this installation: a provider that could claim one could become the administrator.
      // A subject that no person can have, such as one with a NUL, is nobody.
      const subject = parseName(sub, 255)
      if (!subject.ok || subject.value !== sub || sub.startsWith('local:')) return refused()
      return accept(sub)
    } catch (error) {
      return isProviderDown(error) ? unavailable() : refused()
    }
  }
}

/** True when the token cannot be checked now. Every other error means an invalid token. */
function isProviderDown(error: unknown): boolean {
  if (error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid) return true
  if (error instanceof errors.JOSEError) return error.code === 'ERR_JOSE_GENERIC'
  return error instanceof TypeError && error.message === 'fetch failed'
}

function refused() {
  return refuse('unauthenticated', 'The token is not valid.')
}

function unavailable() {
  return refuse(
    'identity.provider.unavailable',
    'The identity provider does not respond, so the token cannot be checked.',
    {
      hint: 'Try again, or use an API key.',
    },
  )
}

export type AuthenticatorDeps = {
  readonly db: Sql
  readonly now: Clock
  readonly provider?: IdentityProvider | undefined
  readonly onError?: ((error: unknown) => void) | undefined
  /** A clock that only moves forward, for what is remembered; `now` by default. */
  readonly elapsedMs?: () => number
}

export type Authenticator = {
  /** `audience` replaces that of the provider: a token that was issued for one part of the server does not open the others. */
  readonly authenticate: (bearer: string, audience?: string) => Promise<Decision<Principal>>
  readonly callers: Callers
  /** Waits for pending writes about used keys. */
  close(): Promise<void>
}

/** Longer than any known token of an identity provider, and short enough to hash cheaply. */
const BEARER_CHARS_MAX = 8_192

export function openAuthenticator(deps: AuthenticatorDeps): Authenticator {
  const use = openKeyUse(deps.db, deps.onError ?? (() => {}))
  const verify = deps.provider && openTokenVerifier(deps.provider, deps.now)
  async function authenticate(bearer: string, audience?: string): Promise<Decision<Principal>> {
    if (bearer.length > BEARER_CHARS_MAX) return unauthenticated()
    if (bearer.startsWith('ck_')) return authenticateKey(deps, use, bearer)
    return verify ? authenticateToken(deps.db, () => verify(bearer, audience)) : unauthenticated()
  }
  async function look(bearer: string, sources: WorkspaceSources): Promise<Decision<Looked>> {
    const prefix = prefixOf(bearer)
    if (prefix !== undefined) return lookByKey(deps, use, bearer, prefix, sources)
    const principal = await authenticate(bearer)
    if (!principal.ok) return principal
    const workspace = await resolveWorkspace(deps, principal.value, sources)
    const tokenLeftMs = (decodeJwt(bearer).exp ?? 0) * 1_000 - deps.now().getTime()
    return accept({ principal: principal.value, workspace, access: undefined, tokenLeftMs })
  }
  const { elapsedMs = () => deps.now().getTime() } = deps
  return { authenticate, callers: openCallers(look, elapsedMs), close: () => use.settle() }
}

/** Returns the row of a key that works now; the clock of the database decides whether it has expired. */
async function findLiveKey(db: Sql, key: string): Promise<KeyOwnerRow | undefined> {
  const prefix = prefixOf(key)
  if (prefix === undefined) return undefined
  const [row] = await db.run(findKeyOwner, [prefix])
  return isLive(key, row) ? row : undefined
}

function isLive<Row extends KeyOwnerRow>(key: string, row: Row | undefined): row is Row {
  // An unknown prefix also costs one comparison, so that timing does not reveal known prefixes.
  const same = isSameHash(key, row?.key_hash)
  return same && row?.is_live === true
}

export async function isWorkingKey(db: Sql, key: string | null): Promise<boolean> {
  return key !== null && (await findLiveKey(db, key)) !== undefined
}

async function authenticateKey({ db, now }: AuthenticatorDeps, use: KeyUse, key: string): Promise<Decision<Principal>> {
  const row = await findLiveKey(db, key)
  if (!row) return unauthenticated()
  use.note(row.key_id, row.last_used_at, now())
  return accept(ownerOf(row))
}

function ownerOf(row: KeyOwnerRow): Principal {
  return {
    ...userOf(row),
    credential: 'api_key',
    role: lowerRole(row.user_role, row.key_role),
    keyId: row.key_id,
    workspaceId: row.workspace_id,
    ...(row.agent === null ? {} : { agent: { name: row.agent, tools: row.tools ?? [] } }),
  }
}

async function lookByKey(
  { db, now }: AuthenticatorDeps,
  use: KeyUse,
  key: string,
  prefix: string,
  sources: WorkspaceSources,
): Promise<Decision<Looked>> {
  const named = pickWorkspace({ ...sources, fallback: undefined }, null)
  const wanted = named ?? pickWorkspace(sources, null)
  const [row] = await db.run(findCaller, [prefix, wanted?.id ?? null, wanted?.slug ?? null, named === undefined])
  if (!isLive(key, row)) return unauthenticated()
  use.note(row.key_id, row.last_used_at, now())
  const principal = ownerOf(row)
  const { workspace } = row
  return accept({
    principal,
    workspace: workspace
      ? accept({ ...workspace, created_at: new Date(workspace.created_at) })
      : refuseWorkspace(pickWorkspace(sources, principal.workspaceId)),
    access: { version: row.access_version, leftMs: row.left_ms ?? Number.POSITIVE_INFINITY },
  })
}

async function authenticateToken(db: Sql, verify: () => ReturnType<VerifyToken>): Promise<Decision<Principal>> {
  const subject = await verify()
  if (!subject.ok) return subject.code === 'unauthenticated' ? unauthenticated() : subject
  const [row] = await db.run(findSubject, [subject.value])
  if (!row) return unauthenticated()
  return accept({ ...userOf(row), credential: 'jwt', role: row.user_role, keyId: null, workspaceId: null })
}

/** One code and one text for unknown, wrong, expired, revoked and malformed credentials: the answer does not tell which. */
function unauthenticated(): Refusal {
  return refuse('unauthenticated', 'This credential is not valid.', {
    hint: 'Send Authorization: Bearer with a live API key or a token of your identity provider.',
  })
}
