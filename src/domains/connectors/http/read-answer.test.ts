import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ASKED_WAIT_MAX_MS, decideRetry, type RetrySettings } from '#kernel/retry'
import { failureOfStatus } from './request.ts'

const settings: RetrySettings = {
  limit: { attempts: 3 },
  backoff: { delay: { kind: 'fixed', ms: 10 } },
  retryable: ['rate_limited', 'transient_connector_error'],
}

/** How long the next attempt waits after such an answer. */
function waitAfter(status: number, header: string | string[]): number {
  const { errorClass, retryAfterMs } = failureOfStatus({ status, headers: { 'retry-after': header } })
  assert.ok(retryAfterMs === undefined || Number.isSafeInteger(retryAfterMs))
  const next = decideRetry(settings, { attempt: 1, errorClass, random: () => 0, askedToWaitMs: retryAfterMs })
  assert.ok(next.retry)
  return next.delayMs
}

test('a provider that asks for longer than anybody waits is left alone for as long as anybody waits, not for less', () => {
  for (const status of [429, 503]) {
    assert.equal(waitAfter(status, '7'), 7_000)
    for (const seconds of ['3600', '99999', '100000', '1000000000000', '9'.repeat(400)])
      assert.equal(waitAfter(status, seconds), ASKED_WAIT_MAX_MS, seconds)
  }
})

test('what is no number of seconds is no word about time', () => {
  for (const said of ['-5', '1e12', '0x10', '1.5', '', ' 7', 'Wed, 21 Oct 2026 07:28:00 GMT', ['7', '9']])
    assert.equal(waitAfter(429, said), 10)
  assert.equal(waitAfter(429, '0'), 10)
})
