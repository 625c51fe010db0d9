/**
 * Slows down whoever guesses credentials, before anything is looked up: so many bad ones from one address, then none is tried
 * for a while. A credential that worked lately is always tried, so that a guesser behind the same proxy stops nobody else.
 */
import { createHash } from 'node:crypto'
import type { Clock } from '#kernel/clock'
import { type Refusal, refuse } from '#kernel/refusal'
import { type Bucket, takeToken } from './rate-limit.ts'
import type { ApiContext } from './request-context.ts'

export type BadBearers = {
  /** A refusal when this address has used up its guesses and the credential is not known to be good. */
  decide(c: ApiContext, bearer: string): Refusal | undefined
  note(c: ApiContext, bearer: string, isGood: boolean): void
}

const ADDRESSES_MAX = 10_000
const GOOD_MAX = 10_000
const GOOD_MS = 600_000

export function openBadBearers(perMinute: number, now: Clock): BadBearers {
  const buckets = new Map<string, Bucket>()
  /** By hash: a list of working credentials is not kept, not even here. It only opens this door; the database decides. */
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

/** What is old goes; if nothing is old, everything does: memory has an end, and starting anew only gives guesses back. */
function forget<T>(map: Map<string, T>, isOld: (value: T) => boolean): void {
  const size = map.size
  for (const [name, value] of map) if (isOld(value)) map.delete(name)
  if (map.size === size) map.clear()
}

/** Of the connection itself: what a header says about it anybody can write. */
function addressOf(c: ApiContext): string {
  return c.env?.incoming?.socket?.remoteAddress ?? 'unknown'
}
