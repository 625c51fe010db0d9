/** The caller of a request: the credential, the limits on guessing and on the rate, the role and the workspace. */
import { createHash } from 'node:crypto'
import type { MiddlewareHandler } from 'hono'
import { authorize, resolveWorkspace } from '#domains/identity'
import type { Clock } from '#kernel/clock'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import type { ApiDeps } from './api-deps.ts'
import { answerProblem, type ApiContext, type ApiEnv } from './guards.ts'

const BEARER = /^Bearer +([^\s,]+)$/i

/** Returns the bearer credential of a request. Treats several credentials, or one in another form, as no credential. */
function bearerOf(c: ApiContext): Decision<string> {
  const given = BEARER.exec(c.req.header('authorization') ?? '')?.[1]
  if (given !== undefined) return { ok: true, value: given }
  return refuse('unauthenticated', 'This request needs a credential.', {
    hint: 'Send Authorization: Bearer and an API key.',
  })
}

/** How long the credential of a request still reaches a workspace, or the organisation; undefined: no longer. */
export function rightOf(
  { callers }: Pick<ApiDeps, 'callers'>,
  c: ApiContext,
  workspaceId?: string,
): () => Promise<number | undefined> {
  const [bearer, role] = [bearerOf(c), c.get('access')?.role ?? 'admin']
  return async () => {
    if (!bearer.ok) return undefined
    const looked = await callers.look({ bearer: bearer.value, role, sources: { idHeader: workspaceId } })
    if (!looked.ok || !authorize(looked.value.principal, role).ok) return undefined
    if (workspaceId !== undefined && !looked.value.workspace.ok) return undefined
    const { access, tokenLeftMs = Number.POSITIVE_INFINITY } = looked.value
    const leftMs = access?.leftMs ?? tokenLeftMs
    return leftMs > 0 ? leftMs : undefined
  }
}

type CallerDeps = Pick<ApiDeps, 'authenticate' | 'callers' | 'db' | 'defaultWorkspace' | 'oauthResource'>

/** The operation that may act for a remembered caller: its statement compares the version of all rights (docs/decisions/0032). */
const REMEMBERS = 'submitCommand'

/** The operation with an audience of its own: the token of a client of this protocol must not open approvals and keys. */
const MCP = 'serveMcp'

export function authentication(deps: CallerDeps, bad: BadBearers): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const access = c.get('access')
    if (access?.open) return next()
    const bearer = bearerOf(c)
    if (!bearer.ok) return answerProblem(c, bearer)
    if (access?.config?.operationId === REMEMBERS) {
      const { role } = access
      const asked = { bearer: bearer.value, role, sources: workspaceSources(c, deps.defaultWorkspace) }
      const known = deps.callers.recall(asked)
      if (known) {
        c.set('principal', known.principal)
        c.set('entered', accept(known.workspace))
        c.set('remembered', { accessVersion: known.accessVersion, confirm: () => confirm(deps, c, asked, bad) })
        await next()
        return refuseUnconfirmed(c)
      }
      return (await decideBearer(c, asked, bad, () => lookUp(deps, c, asked))) ?? next()
    }
    const refused = await decideBearer(c, { bearer: bearer.value }, bad, async () => {
      const isMcp = access?.config?.operationId === MCP
      const principal = await deps.authenticate(bearer.value, isMcp ? deps.oauthResource?.resource : undefined)
      if (principal.ok) c.set('principal', principal.value)
      return principal
    })
    return refused ?? next()
  }
}

/** Limits guesses: refuses an address that has made too many, and counts this one if it is wrong. */
async function decideBearer(
  c: ApiContext,
  { bearer }: { readonly bearer: string },
  bad: BadBearers,
  look: () => Promise<Decision<unknown>>,
): Promise<Response | undefined> {
  const tooMany = bad.decide(c, bearer)
  if (tooMany) return answerProblem(c, tooMany)
  const looked = await look()
  // An unavailable database or provider is not evidence against the credential.
  if (looked.ok || looked.code === 'unauthenticated') bad.note(c, bearer, looked.ok)
  return looked.ok ? undefined : answerProblem(c, looked)
}

type Asked = Parameters<ApiDeps['callers']['look']>[0]

async function lookUp({ callers }: CallerDeps, c: ApiContext, asked: Asked): Promise<Decision<unknown>> {
  c.set('remembered', undefined)
  const looked = await callers.look(asked)
  c.set('principal', looked.ok ? looked.value.principal : undefined)
  c.set('entered', looked.ok ? looked.value.workspace : undefined)
  return looked
}

async function confirm(deps: CallerDeps, c: ApiContext, asked: Asked, bad: BadBearers): Promise<Decision<unknown>> {
  const looked = await lookUp(deps, c, asked)
  if (looked.ok) return enter(deps, c)
  if (looked.code === 'unauthenticated') bad.note(c, asked.bearer, false)
  return looked
}

/** Nothing has confirmed the remembered caller, for example because the body was refused: a revoked key must not get that answer. */
async function refuseUnconfirmed(c: ApiContext): Promise<void> {
  const confirmed = await c.get('remembered')?.confirm()
  if (!confirmed || confirmed.ok) return
  // Without this, the headers of the first answer would stay.
  c.res = undefined
  c.res = answerProblem(c, confirmed)
}

/** Runs after the rate limit, so that callers without the role are limited too. */
export function authorization(deps: CallerDeps): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const entered = await enter(deps, c)
    return entered.ok ? next() : answerProblem(c, entered)
  }
}

/** Checks whether the route is open to the caller, and finds the workspace of the request. */
async function enter(deps: CallerDeps, c: ApiContext): Promise<Decision<unknown>> {
  const access = c.get('access')
  const principal = c.get('principal')
  if (!access || access.open || !principal) return accept(undefined)
  if (principal.agent && !access.agents) return closedToAgents()
  const allowed = authorize(principal, access.role)
  if (!allowed.ok || !access.workspace) return allowed
  const sources = () => workspaceSources(c, deps.defaultWorkspace)
  const workspace = c.get('entered') ?? (await resolveWorkspace(deps, principal, sources()))
  if (workspace.ok) c.set('workspace', workspace.value)
  return workspace
}

export function closedToAgents(): Refusal {
  return refuse('api.route.closed_to_agents', 'This is the key of an agent, and this route is closed to agents.', {
    hint: 'Propose the action with POST /agent-actions, or let a person do it with their own key.',
  })
}

function workspaceSources(c: ApiContext, fallback: string | undefined) {
  return {
    idHeader: c.req.header('x-workspace-id'),
    slugHeader: c.req.header('x-workspace'),
    idQuery: c.req.query('workspace_id'),
    fallback,
  }
}

type Rate = { readonly ratePerMinute: number; readonly rateBurst: number }
/** Counts parts of a token, `ratePerMinute` per millisecond, in whole numbers: a reported waiting time is never too short. */
export type Bucket = { readonly parts: number; readonly atMs: number }
type Taken = {
  readonly allowed: boolean
  readonly bucket: Bucket
  readonly retryAfterS: number
  readonly fullInS: number
}

const TOKEN = 60_000

/** Takes one token if there is one. A clock that moves back adds none. */
export function takeToken(bucket: Bucket | undefined, { ratePerMinute, rateBurst }: Rate, nowMs: number): Taken {
  const full = rateBurst * TOKEN
  const sinceMs = bucket ? Math.max(0, nowMs - bucket.atMs) : 0
  const filled = bucket ? Math.min(full, bucket.parts + sinceMs * ratePerMinute) : full
  const allowed = filled >= TOKEN
  const parts = allowed ? filled - TOKEN : filled
  return {
    allowed,
    bucket: { parts, atMs: nowMs },
    retryAfterS: allowed ? 0 : Math.ceil((TOKEN - filled) / ratePerMinute / 1_000),
    fullInS: Math.ceil((full - parts) / ratePerMinute / 1_000),
  }
}

/** Only valid credentials have a bucket, so the map is as large as the number of keys in use. Full buckets are dropped. */
const BUCKETS_MAX = 10_000

export function rateLimit(rate: Rate, now: Clock): MiddlewareHandler<ApiEnv> {
  const buckets = new Map<string, Bucket>()
  const policy = `"key";q=${rate.rateBurst};w=${Math.ceil((rate.rateBurst / rate.ratePerMinute) * 60)}`
  return async (c, next) => {
    const principal = c.get('principal')
    // A limit protects a server from its callers, not a program from itself.
    if (!principal || c.env?.isOwn) return next()
    const nowMs = now().getTime()
    const name = principal.keyId ?? principal.userId
    const taken = takeToken(buckets.get(name), rate, nowMs)
    if (buckets.size >= BUCKETS_MAX && !buckets.has(name)) forgetFull(buckets, rate, nowMs)
    buckets.set(name, taken.bucket)
    c.header('ratelimit-policy', policy)
    c.header('ratelimit', `"key";r=${Math.floor(taken.bucket.parts / TOKEN)};t=${taken.fullInS}`)
    if (taken.allowed) return next()
    return answerProblem(
      c,
      refuse('api.rate.exceeded', `This key may send ${rate.ratePerMinute} requests a minute.`, {
        hint: `Wait ${taken.retryAfterS} s.`,
        facts: { retry_after_s: taken.retryAfterS, limit_per_minute: rate.ratePerMinute },
      }),
    )
  }
}

function forgetFull(buckets: Map<string, Bucket>, rate: Rate, nowMs: number): void {
  for (const [name, bucket] of buckets) {
    const filled = bucket.parts + (nowMs - bucket.atMs) * rate.ratePerMinute
    if (filled >= rate.rateBurst * TOKEN) buckets.delete(name)
  }
}

export type BadBearers = {
  /** Refuses when this address has used up its attempts and the credential is not known to be good. */
  decide(c: ApiContext, bearer: string): Refusal | undefined
  note(c: ApiContext, bearer: string, isGood: boolean): void
}

const ADDRESSES_MAX = 10_000
const GOOD_MAX = 10_000
const GOOD_MS = 600_000

export function openBadBearers(perMinute: number, now: Clock): BadBearers {
  const buckets = new Map<string, Bucket>()
  /** Holds hashes, so that no working credentials are kept in memory. Only skips this limit; the database authenticates. */
  const good = new Map<string, number>()
  const rate = { ratePerMinute: perMinute, rateBurst: perMinute }
  const nameOf = (bearer: string) => createHash('sha256').update(bearer).digest('base64')
  return {
    decide(c, bearer) {
      const nowMs = now().getTime()
      const taken = takeToken(buckets.get(addressOf(c)), rate, nowMs)
      if (taken.allowed || (good.get(nameOf(bearer)) ?? 0) > nowMs) return undefined
      return refuse('api.rate.exceeded', 'Too many bad credentials came from this address.', {
        hint: `Wait ${taken.retryAfterS} s.`,
        facts: { retry_after_s: taken.retryAfterS, limit_per_minute: perMinute },
      })
    },
    note(c, bearer, isGood) {
      const nowMs = now().getTime()
      if (isGood) {
        if (good.size >= GOOD_MAX) forget(good, (until) => until <= nowMs)
        good.set(nameOf(bearer), nowMs + GOOD_MS)
        return
      }
      const address = addressOf(c)
      if (buckets.size >= ADDRESSES_MAX) forget(buckets, ({ atMs }) => nowMs - atMs > 60_000)
      buckets.set(address, takeToken(buckets.get(address), rate, nowMs).bucket)
    },
  }
}

/** Deletes old entries, or all of them if none is old. This bounds the memory; a reset only grants further attempts. */
function forget<T>(map: Map<string, T>, isOld: (value: T) => boolean): void {
  const size = map.size
  for (const [name, value] of map) if (isOld(value)) map.delete(name)
  if (map.size === size) map.clear()
}

/** The address of the connection; headers can be forged. */
function addressOf(c: ApiContext): string {
  return c.env?.incoming?.socket?.remoteAddress ?? 'unknown'
}
