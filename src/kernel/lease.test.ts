import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  clockMovedBackMs,
  decideClaim,
  decideRelease,
  decideRenew,
  decideWrite,
  isExpired,
  isTrusted,
  type Lease,
  renewEveryMs,
  trustLease,
} from './lease.ts'
import type { Decision } from './refusal.ts'

const at = (seconds: number) => new Date(Date.UTC(2026, 4, 1, 10, 0, 0) + seconds * 1_000)
const codeOf = (decision: Decision<unknown>) => (decision.ok ? 'accepted' : decision.code)
const aLease = (changes: Partial<Lease> = {}): Lease => ({
  holder: 'w1',
  token: 't1',
  leaseUntil: at(30),
  heartbeatAt: at(0),
  ...changes,
})
const claim = (token: string, seconds: number) => ({
  holder: `holder of ${token}`,
  token,
  leaseMs: 30_000,
  now: at(seconds),
})

describe('lease', () => {
  test('a free row and a run-out one are leased, a live one is refused with the time to wait', () => {
    assert.deepEqual(decideClaim(undefined, claim('t2', 0)), {
      ok: true,
      value: { holder: 'holder of t2', token: 't2', leaseUntil: at(30), heartbeatAt: at(0) },
    })
    const held = decideClaim(aLease(), claim('t2', 29.999))
    assert.deepEqual(!held.ok && [held.code, held.facts?.['waitMs']], ['lease.held', 1])
    assert.equal(codeOf(decideClaim(aLease(), claim('t2', 30))), 'accepted')
    assert.equal(codeOf(decideClaim(aLease(), { ...claim('t2', 1), holder: 'w1' })), 'lease.held')
  })

  test('only the token on the row renews, writes and releases', () => {
    for (const current of [undefined, aLease({ token: 't2' })]) {
      assert.equal(codeOf(decideRenew(current, 't1', at(1), 30_000)), 'lease.lost')
      assert.equal(codeOf(decideWrite(current, 't1')), 'lease.lost')
      assert.equal(codeOf(decideRelease(current, 't1')), 'lease.lost')
    }
    assert.deepEqual(decideRenew(aLease(), 't1', at(10), 30_000), {
      ok: true,
      value: aLease({ leaseUntil: at(40), heartbeatAt: at(10) }),
    })
    assert.deepEqual(decideRelease(aLease(), 't1'), { ok: true, value: undefined })
  })

  test('an expired lease that was not taken still belongs to its holder', () => {
    assert.ok(isExpired(aLease(), at(31)))
    assert.equal(codeOf(decideWrite(aLease(), 't1')), 'accepted')
    assert.equal(codeOf(decideRenew(aLease(), 't1', at(31), 30_000)), 'accepted')
  })

  test('a clock that moved back five hours re-leases nothing early and is noticed', () => {
    const fiveHours = -5 * 3_600
    assert.equal(isExpired(aLease(), at(fiveHours)), false)
    assert.equal(codeOf(decideClaim(aLease(), claim('t2', fiveHours))), 'lease.held')
    const renewed = decideRenew(aLease(), 't1', at(fiveHours), 30_000)
    assert.deepEqual(renewed.ok && renewed.value.leaseUntil, at(30))
    assert.equal(clockMovedBackMs(aLease(), at(fiveHours)), 5 * 3_600_000)
    assert.equal(clockMovedBackMs(aLease(), at(5)), 0)
  })

  test('what would make a lease without an end is a fault', () => {
    for (const leaseMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
      assert.throws(() => decideClaim(undefined, { ...claim('t1', 0), leaseMs }), { code: 'lease.length' })
    }
    assert.throws(() => decideClaim(undefined, { ...claim('t1', 0), now: new Date(Number.NaN) }), {
      code: 'lease.length',
    })
    assert.throws(() => decideClaim(aLease(), claim('t1', 60)), { code: 'lease.token_reused' })
  })

  test('the holder believes from its own request on, and a tenth less than the lease', () => {
    const trust = trustLease(1_000, 30_000)
    assert.deepEqual(trust, { fromMs: 1_000, untilMs: 28_000 })
    assert.deepEqual(
      [999, 1_000, 27_999, 28_000].map((ms) => isTrusted(trust, ms)),
      [false, true, true, false],
    )
    assert.equal(isTrusted(trustLease(1_000, 30_000, 30_000), 1_000), false)
    assert.equal(renewEveryMs(30_000), 10_000)
    assert.equal(renewEveryMs(2), 1)
  })
})
