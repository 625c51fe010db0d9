/** A token bucket per key in this process: a burst is free, after that the rate counts. */
import type { MiddlewareHandler } from 'hono'
import { refuse } from '#kernel/refusal'
import type { Clock } from '#kernel/clock'
import { answerProblem, type ApiEnv } from './request-context.ts'

export type Rate = { readonly ratePerMinute: number; readonly rateBurst: number }
export type Bucket = { readonly tokens: number; readonly atMs: number }
export type Taken = {
  readonly allowed: boolean
  readonly bucket: Bucket
  readonly retryAfterS: number
  readonly fullInS: number
}

/** Takes one token if there is one; a clock that moves back adds none. */
export function takeToken(bucket: Bucket | undefined, { ratePerMinute, rateBurst }: Rate, nowMs: number): Taken {
  const perMs = ratePerMinute / 60_000
  const sinceMs = bucket ? Math.max(0, nowMs - bucket.atMs) : 0
  const filled = bucket ? Math.min(rateBurst, bucket.tokens + sinceMs * perMs) : rateBurst
  const allowed = filled >= 1
  const tokens = allowed ? filled - 1 : filled
  return {
    allowed,
    bucket: { tokens, atMs: nowMs },
    retryAfterS: allowed ? 0 : Math.ceil((1 - filled) / perMs / 1_000),
    fullInS: Math.ceil((rateBurst - tokens) / perMs / 1_000),
  }
}

/** Only live credentials have a bucket, so the map is as large as the number of keys in use; full ones are forgotten. */
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
    c.header('ratelimit', `"key";r=${Math.floor(taken.bucket.tokens)};t=${taken.fullInS}`)
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
    const filled = bucket.tokens + ((nowMs - bucket.atMs) * rate.ratePerMinute) / 60_000
    if (filled >= rate.rateBurst) buckets.delete(name)
  }
}
