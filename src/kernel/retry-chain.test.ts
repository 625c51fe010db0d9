/** Retry chains: hops, the last retry allowed, and chains that are broken. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { attemptOfHops, countHops, decideRetry, isPermanentFailure, walkRetryChain } from './retry.ts'
import { schedulerRetry } from './retry-policy.ts'

const rows: Record<string, string | null> = { a: null, b: 'a', c: 'b', d: 'c', lost: 'gone', x: 'y', y: 'z', z: 'x' }
const retryOf = (id: string) => rows[id]

function hopsOf(id: string): number {
  const hops = countHops(id, retryOf)
  assert.ok(hops.ok)
  return hops.value
}

test('[SCH-082] hops to the root are the attempts: 0, 1, 2, 3', () => {
  assert.deepEqual(['a', 'b', 'c', 'd'].map(hopsOf), [0, 1, 2, 3])
  const chain = walkRetryChain('c', retryOf)
  assert.deepEqual(chain.ok && chain.value, ['c', 'b', 'a'])
})

test('[SCH-083] the job with three hops is the last; another maximum moves the end', () => {
  const isRetried = (id: string, retries: number) =>
    decideRetry(
      { ...schedulerRetry, limit: { retries } },
      { attempt: attemptOfHops(hopsOf(id)), errorClass: 'work_failed', random: () => 0 },
    ).retry
  assert.deepEqual(schedulerRetry.limit, { retries: 3 })
  assert.deepEqual(
    ['a', 'b', 'c', 'd'].map((id) => isRetried(id, 3)),
    [true, true, true, false],
  )
  assert.deepEqual(
    ['a', 'b', 'c', 'd'].map((id) => isRetried(id, 1)),
    [true, false, false, false],
  )
})

test('a failure is permanent when it failed, nothing repeats it and the hops are used up', () => {
  const job = { isFailed: true, hasRetry: false, hops: 3 }
  assert.equal(isPermanentFailure(job, { retries: 3 }), true)
  assert.equal(isPermanentFailure({ ...job, hops: 2 }, { retries: 3 }), false)
  assert.equal(isPermanentFailure({ ...job, hasRetry: true }, { retries: 3 }), false)
  assert.equal(isPermanentFailure({ ...job, isFailed: false }, { retries: 3 }), false)
  assert.equal(isPermanentFailure({ ...job, hops: 4 }, { retries: 3 }), true)
})

test('[SCH-090] a cycle or a missing parent ends the walk with an error', () => {
  const cycle = countHops('x', retryOf)
  assert.ok(!cycle.ok)
  assert.equal(cycle.code, 'retry.chain.cycle')
  assert.deepEqual(cycle.facts, { cycle: ['x', 'y', 'z', 'x'] })
  const self = countHops('self', () => 'self')
  assert.equal(self.ok ? 'walked' : self.code, 'retry.chain.cycle')
  const lost = countHops('lost', retryOf)
  assert.ok(!lost.ok)
  assert.equal(lost.code, 'retry.chain.missing_parent')
  assert.deepEqual(lost.facts, { missing: 'gone' })
})
