/** Random stories of three holders, a store with a moving clock, and messages that arrive late or never. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { proofSize } from '#test/proof-size'
import {
  decideClaim,
  decideRelease,
  decideRenew,
  decideWrite,
  isExpired,
  isTrusted,
  type Lease,
  type LeaseTrust,
  trustLease,
} from './lease.ts'

const LEASE_MS = 1_000
const actions = ['claim', 'renew', 'write', 'release', 'arrive', 'learn', 'reap'] as const
type Step = { action: (typeof actions)[number]; who: number; ms: number; clockMs: number }

/** A request on its way: the store decides on arrival, the holder learns the answer later. */
type Request = { kind: 'claim' | 'renew' | 'release'; token: string; askedAtMs: number; answer?: boolean }
type Holder = { name: string; speed: number; token?: string; trust?: LeaseTrust; requests: Request[] }

class Story {
  realMs = 1_000_000
  clockOffsetMs = 0
  row: Lease | undefined
  /** The token of the last claim that was granted and not given back: kept apart from the row, as the judge. */
  rightful: string | undefined
  tokens = 0
  readonly seen = { takeovers: 0, staleWrites: 0, goodWrites: 0, trusted: 0 }
  readonly holders: Holder[] = [0.95, 1, 1.05].map((speed, at) => ({ name: `w${at}`, speed, requests: [] }))

  ownMs = (holder: Holder) => this.realMs * holder.speed
  now = () => new Date(this.realMs + this.clockOffsetMs)

  play({ action, who, ms, clockMs }: Step): void {
    const holder = this.holders[who % this.holders.length]
    assert.ok(holder)
    this.realMs += ms
    this.clockOffsetMs += clockMs
    const askedAtMs = this.ownMs(holder)
    if (action === 'claim') holder.requests.push({ kind: 'claim', token: `t${++this.tokens}`, askedAtMs })
    if (action === 'renew' && holder.token) holder.requests.push({ kind: 'renew', token: holder.token, askedAtMs })
    if (action === 'release' && holder.token) {
      holder.requests.push({ kind: 'release', token: holder.token, askedAtMs })
      delete holder.token
      delete holder.trust
    }
    if (action === 'arrive') this.arrive(holder)
    if (action === 'learn') this.learn(holder)
    if (action === 'reap' && this.row && isExpired(this.row, this.now())) this.row = undefined
    if (action === 'write' && holder.token) this.write(holder.token)
  }

  arrive(holder: Holder): void {
    const request = holder.requests.find(({ answer }) => answer === undefined)
    if (!request) return
    const { kind, token } = request
    const claim = { holder: holder.name, token, leaseMs: LEASE_MS, now: this.now() }
    const decision =
      kind === 'claim'
        ? decideClaim(this.row, claim)
        : kind === 'renew'
          ? decideRenew(this.row, token, this.now(), LEASE_MS)
          : decideRelease(this.row, token)
    request.answer = decision.ok
    if (!decision.ok) return
    if (kind === 'claim' && this.row) this.seen.takeovers += 1
    this.row = decision.value
    if (kind === 'claim') this.rightful = token
    if (kind === 'release') this.rightful = undefined
  }

  learn(holder: Holder): void {
    const at = holder.requests.findIndex(({ answer }) => answer !== undefined)
    const [request] = at === -1 ? [] : holder.requests.splice(at, 1)
    if (!request?.answer || request.kind === 'release') return
    if (request.kind === 'renew' && request.token !== holder.token) return
    holder.token = request.token
    holder.trust = trustLease(request.askedAtMs, LEASE_MS)
  }

  /** Holders write whatever they believe, as a paused process does on waking. */
  write(token: string): void {
    const isRightful = token === this.rightful
    const decision = decideWrite(this.row, token)
    if (decision.ok) assert.ok(isRightful, 'a stale token was accepted')
    else if (isRightful) assert.equal(this.row, undefined, 'the rightful holder was refused')
    this.seen[decision.ok ? 'goodWrites' : 'staleWrites'] += 1
  }

  trusting = () => this.holders.filter((holder) => holder.trust && isTrusted(holder.trust, this.ownMs(holder)))
}

const step = (clockMs: fc.Arbitrary<number>): fc.Arbitrary<Step> =>
  fc.record({
    action: fc.constantFrom(...actions, 'arrive', 'learn', 'write'),
    who: fc.nat({ max: 2 }),
    ms: fc.nat({ max: 150 }),
    clockMs,
  })
const still = fc.constant(0)
const jumpBack = fc.integer({ min: -1_500, max: 0 })
const anyJump = fc.integer({ min: -3_000, max: 3_000 })
const stories = (jump: fc.Arbitrary<number>) =>
  fc.array(step(fc.oneof({ weight: 19, arbitrary: still }, { weight: 1, arbitrary: jump })), {
    minLength: 60,
    maxLength: 120,
    size: 'max',
  })

describe('lease stories', () => {
  test('a write is accepted only from the latest claim, wherever the clock jumps', () => {
    const total = { takeovers: 0, staleWrites: 0, goodWrites: 0 }
    fc.assert(
      fc.property(stories(anyJump), (steps) => {
        const story = new Story()
        for (const each of steps) story.play(each)
        for (const name of ['takeovers', 'staleWrites', 'goodWrites'] as const) total[name] += story.seen[name]
      }),
      { numRuns: 800 },
    )
    // The stories must reach the dangerous places, else they prove nothing.
    const enough = proofSize(10, 100)
    assert.ok(Math.min(total.takeovers, total.staleWrites, total.goodWrites) > enough, JSON.stringify(total))
  })

  test('at most one holder believes that it may act, while the store’s clock stands true or moves back', () => {
    let trusted = 0
    let takeovers = 0
    fc.assert(
      fc.property(stories(jumpBack), (steps) => {
        const story = new Story()
        for (const each of steps) {
          story.play(each)
          const trusting = story.trusting()
          assert.ok(trusting.length <= 1, `${trusting.map(({ name }) => name).join(' and ')} both act`)
          if (trusting[0]) assert.equal(trusting[0].token, story.rightful, 'a believer without the lease')
          trusted += trusting.length
        }
        takeovers += story.seen.takeovers
      }),
      { numRuns: 800 },
    )
    assert.ok(trusted > proofSize(50, 500) && takeovers > proofSize(10, 100), JSON.stringify({ trusted, takeovers }))
  })
})
