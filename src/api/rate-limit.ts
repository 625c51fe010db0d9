/** A token bucket per key, in this process: allows a burst, then limits the rate. */
import type { MiddlewareHandler } from 'hono'
import { refuse } from '#kernel/refusal'
import type { Clock } from '#kernel/clock'
import { answerProblem, type ApiEnv } from './request-context.ts'

export type Rate = { readonly ratePerMinute: number; readonly rateBurst: number }
/** Counts parts of a token, `ratePerMinute` per millisecond, in whole numbers: a reported waiting time is never too short. */
export type Bucket = { readonly parts: number; readonly atMs: number }
export type Taken = {
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
