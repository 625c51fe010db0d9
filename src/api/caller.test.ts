import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Bucket, takeToken } from './caller.ts'

const rate = { ratePerMinute: 60, rateBurst: 5 }

test('a burst is free, then one request a second', () => {
  let bucket: Bucket | undefined
  const take = (nowMs: number) => {
    const taken = takeToken(bucket, rate, nowMs)
    bucket = taken.bucket
    return taken
  }
  for (let at = 0; at < 5; at++) assert.equal(take(0).allowed, true)
  const refused = take(0)
  assert.equal(refused.allowed, false)
  assert.equal(refused.retryAfterS, 1)
  assert.equal(take(999).allowed, false)
  assert.equal(take(1_000).allowed, true)
  assert.equal(take(1_000).allowed, false)
  // A long pause fills the bucket but does not overfill it.
  for (let at = 0; at < 5; at++) assert.equal(take(3_600_000).allowed, true)
  assert.equal(take(3_600_000).allowed, false)
})

test('a clock that moves back adds no tokens', () => {
  const empty = { parts: 0, atMs: 1_000_000 }
  assert.equal(takeToken(empty, rate, 0).allowed, false)
})

test('any window allows at most the burst plus the rate, and waiting for the reported time is enough', () => {
  const pauses = fc.array(fc.integer({ min: 0, max: 5_000 }), { minLength: 1, maxLength: 200 })
  fc.assert(
    fc.property(
      pauses,
      fc.integer({ min: 1, max: 600 }),
      fc.integer({ min: 1, max: 20 }),
      (waits, ratePerMinute, rateBurst) => {
        const given = { ratePerMinute, rateBurst }
        let bucket: Bucket | undefined
        let nowMs = 0
        let allowed = 0
        for (const wait of waits) {
          nowMs += wait
          const taken = takeToken(bucket, given, nowMs)
          bucket = taken.bucket
          if (taken.allowed) allowed += 1
          else assert.equal(takeToken(bucket, given, nowMs + taken.retryAfterS * 1_000).allowed, true)
        }
        assert.ok(allowed * 60_000 <= rateBurst * 60_000 + nowMs * ratePerMinute)
      },
    ),
    // Told to wait 5 s, and with fractions refused again: 1/6 and 5 * 1/6 make a hair less than 1.
    { examples: [[[0, 1_000, 0], 10, 1]] },
  )
})
