/**
 * Limits guessing of credentials per address, before any lookup: after too many bad ones, further ones are refused for a
 * while. A credential that worked recently is always tried, so that an attacker behind the same proxy blocks no other caller.
 */
import { createHash } from 'node:crypto'
import type { Clock } from '#kernel/clock'
import { type Refusal, refuse } from '#kernel/refusal'
import { type Bucket, takeToken } from './rate-limit.ts'
import type { ApiContext } from './request-context.ts'

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
