/** The caller of a request: the credential, the limits on guessing and on the rate, the role and the workspace. */
import { createHash } from 'node:crypto'
import type { MiddlewareHandler } from 'hono'
import { authorize, resolveWorkspace } from '#domains/identity'
import type { Clock } from '#kernel/clock'
import { type Decision, type Refusal, refuse } from '#kernel/refusal'
import type { ApiDeps } from './api-deps.ts'
import { answerProblem, type ApiContext, type ApiEnv } from './guards.ts'

const BEARER = /^Bearer +([^\s,]+)$/i

/** Returns the bearer credential of a request. Treats several credentials, or one in another form, as no credential. */
export function bearerOf(c: ApiContext): Decision<string> {
  const given = BEARER.exec(c.req.header('authorization') ?? '')?.[1]
  if (given !== undefined) return { ok: true, value: given }
  return refuse('unauthenticated', 'This request needs a credential.', {
    hint: 'Send Authorization: Bearer and an API key.',
  })
}

export function authentication(
  { authenticate }: Pick<ApiDeps, 'authenticate'>,
  bad: BadBearers,
): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    if (c.get('access')?.open) return next()
    const bearer = bearerOf(c)
    if (!bearer.ok) return answerProblem(c, bearer)
    const tooMany = bad.decide(c, bearer.value)
    if (tooMany) return answerProblem(c, tooMany)
    const principal = await authenticate(bearer.value)
    // An unavailable database or provider is not evidence against the credential.
    if (principal.ok || principal.code === 'unauthenticated') bad.note(c, bearer.value, principal.ok)
    if (!principal.ok) return answerProblem(c, principal)
    c.set('principal', principal.value)
    await next()
  }
}

/** Runs after the rate limit, so that callers without the role are limited too. */
export function authorization(deps: Pick<ApiDeps, 'db' | 'defaultWorkspace'>): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const access = c.get('access')
    const principal = c.get('principal')
    if (!access || access.open || !principal) return next()
    const allowed = authorize(principal, access.role)
    if (!allowed.ok) return answerProblem(c, allowed)
    if (!access.workspace) return next()
    const workspace = await resolveWorkspace(deps, principal, workspaceSources(c, deps.defaultWorkspace))
    if (!workspace.ok) return answerProblem(c, workspace)
    c.set('workspace', workspace.value)
    await next()
  }
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
    if (!principal) return next()
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
