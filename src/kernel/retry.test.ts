/** The one retry decision: its numbers in every part of Concord, and the rule that no settings can break. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { type FailureClass, failureClasses, finalErrorClasses } from './error-classes.ts'
import {
  ASKED_WAIT_MAX_MS,
  attemptsAllowed,
  decideRetry,
  describeFailure,
  retriesRemaining,
  type RetrySettings,
  tightenLimit,
} from './retry.ts'
import { flowRetry, missionRetry, missionRetryOf, outboxRetry, schedulerRetry } from './retry-policy.ts'

const half = () => 0.5

function delayAfterAttempt(settings: RetrySettings, attempt: number, errorClass: FailureClass): number | string {
  const decision = decideRetry(settings, { attempt, errorClass, random: half })
  return decision.retry ? decision.delayMs / 1_000 : decision.why
}

/** The delays in seconds after attempt 1, 2, … and the reason why it stops. */
function schedule(settings: RetrySettings, errorClass: FailureClass, atMost = 30): (number | string)[] {
  const answers: (number | string)[] = []
  for (let attempt = 1; attempt <= atMost; attempt++) {
    const answer = delayAfterAttempt(settings, attempt, errorClass)
    answers.push(answer)
    if (typeof answer === 'string') break
  }
  return answers
}

const someSettings: fc.Arbitrary<RetrySettings> = fc.record({
  limit: fc.oneof(fc.record({ retries: fc.nat() }), fc.record({ attempts: fc.nat() })),
  backoff: fc.record(
    {
      delay: fc.oneof(
        fc.constant({ kind: 'none' as const }),
        fc.record({ kind: fc.constant('fixed' as const), ms: fc.nat() }),
        fc.record({ kind: fc.constant('list' as const), ms: fc.array(fc.nat()) }),
        fc.record({
          kind: fc.constant('exponential' as const),
          baseMs: fc.nat(),
          factor: fc.integer({ min: 1, max: 10 }),
          capMs: fc.nat(),
        }),
      ),
      jitter: fc.double({ min: 0, max: 1, noNaN: true }),
    },
    { requiredKeys: ['delay'] },
  ),
  retryable: fc.subarray([...failureClasses]),
})
const chance = fc.double({ min: 0, max: 0.999999, noNaN: true })
const attempts = fc.integer({ min: 1, max: 5_000 })

describe('the rule', () => {
  test('[ERR-02] a class that is final never retries, whatever the settings say', () => {
    fc.assert(
      fc.property(someSettings, attempts, chance, (settings, attempt, random) => {
        for (const errorClass of finalErrorClasses) {
          const greedy = { ...settings, limit: { attempts: 10_000 }, retryable: failureClasses }
          for (const each of [settings, greedy])
            assert.deepEqual(decideRetry(each, { attempt, errorClass, random: () => random }), {
              retry: false,
              why: 'not_retryable',
            })
        }
      }),
    )
  })

  test('who asks to be left alone is: at least as long as asked, at most an hour or what the settings wait themselves', () => {
    const waits = { ...missionRetry, limit: { attempts: 9 }, retryable: failureClasses } satisfies RetrySettings
    const after = (askedToWaitMs: number | undefined, settings: RetrySettings = waits) => {
      const decision = decideRetry(settings, { attempt: 1, errorClass: 'rate_limited', random: half, askedToWaitMs })
      assert.ok(decision.retry)
      return decision.delayMs
    }
    assert.deepEqual([after(undefined), after(7_000), after(120_000)], [10_000, 10_000, 120_000])
    assert.deepEqual([after(-5), after(Number.NaN), after(0.2)], [10_000, 10_000, 10_000])
    assert.equal(after(Number.POSITIVE_INFINITY), ASKED_WAIT_MAX_MS)
    const patient = { ...waits, backoff: { delay: { kind: 'list', ms: [0, 7_200_000] } } } satisfies RetrySettings
    assert.deepEqual([after(9e9, patient), after(250.5, patient)], [7_200_000, 251])
    fc.assert(
      fc.property(someSettings, attempts, chance, fc.nat(), (settings, attempt, random, askedToWaitMs) => {
        const failed = { attempt, errorClass: 'rate_limited', random: () => random } as const
        const [plain, asked] = [decideRetry(settings, failed), decideRetry(settings, { ...failed, askedToWaitMs })]
        // A wait never decides whether there is another attempt.
        if (!plain.retry || !asked.retry) return assert.deepEqual(asked, plain)
        assert.ok(asked.delayMs >= Math.max(plain.delayMs, Math.min(askedToWaitMs, ASKED_WAIT_MAX_MS)))
        assert.ok(asked.delayMs <= Math.max(plain.delayMs, askedToWaitMs))
      }),
    )
  })

  test('[ERR-03] an internal error is not retried, so no side effect is repeated blindly', () => {
    const greedy: RetrySettings = { ...missionRetry, retryable: failureClasses }
    assert.equal(delayAfterAttempt(greedy, 1, 'internal_error'), 'not_retryable')
    assert.equal(delayAfterAttempt(greedy, 1, 'infrastructure'), 10)
  })

  test('[ERR-01] a retryable class is retried exactly when it is listed and attempts are left', () => {
    fc.assert(
      fc.property(
        someSettings,
        attempts,
        fc.constantFrom(...failureClasses),
        chance,
        (settings, attempt, errorClass, random) => {
          const decision = decideRetry(settings, { attempt, errorClass, random: () => random })
          const isFinal = finalErrorClasses.some((name) => name === errorClass)
          const allowed = 'retries' in settings.limit ? settings.limit.retries + 1 : settings.limit.attempts
          const expected = !isFinal && settings.retryable.includes(errorClass) && attempt < allowed
          assert.equal(decision.retry, expected)
          if (decision.retry) assert.equal(decision.nextAttempt, attempt + 1)
        },
      ),
    )
  })

  test('a delay is a whole, finite number, chance only shortens it, and the cap is a cap', () => {
    fc.assert(
      fc.property(someSettings, attempts, chance, (settings, attempt, random) => {
        const open = { ...settings, limit: { attempts: 10_000 }, retryable: failureClasses }
        const ask = (value: number, from: RetrySettings) => {
          const decision = decideRetry(from, { attempt, errorClass: 'timeout', random: () => value })
          assert.ok(decision.retry)
          return decision.delayMs
        }
        const delay = ask(random, open)
        const full = ask(0, open)
        assert.ok(Number.isSafeInteger(delay) && delay >= 0)
        assert.ok(delay <= full && delay >= Math.floor(full * (1 - (open.backoff.jitter ?? 0))))
        if (open.backoff.delay.kind === 'exponential') assert.ok(delay <= open.backoff.delay.capMs)
      }),
    )
  })

  test('a base of nothing stays nothing, however often it doubles', () => {
    const backoff = { delay: { kind: 'exponential', baseMs: 0, factor: 2, capMs: 60_000 } } as const
    const decision = decideRetry(
      { limit: { attempts: 5_000 }, backoff, retryable: ['timeout'] },
      { attempt: 2_000, errorClass: 'timeout', random: half },
    )
    assert.ok(decision.retry && decision.delayMs === 0)
  })

  test('the number of attempts follows from the word of the limit', () => {
    assert.equal(attemptsAllowed({ retries: 3 }), 4)
    assert.equal(attemptsAllowed({ attempts: 3 }), 3)
    assert.equal(attemptsAllowed({ retries: 0 }), 1)
  })

  test('counting attempts from 0 is a fault, not one more attempt', () => {
    for (const attempt of [0, -1, 1.5, Number.NaN])
      assert.throws(() => decideRetry(missionRetry, { attempt, errorClass: 'quality', random: half }), {
        code: 'retry.attempt.invalid',
      })
  })
})

describe('missions', () => {
  test('[MIS-203] 10, 20, 40, 80, 160, then 300 seconds, the same for every roll of the dice', () => {
    const patient = missionRetryOf({ max_retries: 100 })
    for (const roll of [0, 0.5, 0.99]) {
      const delays = [1, 2, 3, 4, 5, 6, 7, 8].map((attempt) => {
        const decision = decideRetry(patient, { attempt, errorClass: 'infrastructure', random: () => roll })
        return decision.retry ? decision.delayMs / 1_000 : Number.NaN
      })
      assert.deepEqual(delays, [10, 20, 40, 80, 160, 300, 300, 300])
      let sum = 0
      assert.deepEqual(
        delays.slice(0, 5).map((delay) => (sum += delay)),
        [10, 30, 70, 150, 310],
      )
    }
  })

  test('[MIS-204] three retries are four attempts, and the count of what is left agrees', () => {
    assert.deepEqual(schedule(missionRetry, 'infrastructure'), [10, 20, 40, 'exhausted'])
    assert.deepEqual(schedule(missionRetry, 'quality'), [10, 20, 40, 'exhausted'])
    assert.deepEqual(
      [1, 2, 3, 4, 5].map((attempt) => retriesRemaining(missionRetry.limit, attempt)),
      [3, 2, 1, 0, 0],
    )
  })

  test('a run may set its own numbers, and a task may tighten but not widen them', () => {
    const own = missionRetryOf({ max_retries: 2, base_seconds: 1, cap_seconds: 1.5 })
    assert.deepEqual(schedule(own, 'quality'), [1, 1.5, 'exhausted'])
    assert.deepEqual(schedule(tightenLimit(own, { retries: 1 }), 'quality'), [1, 'exhausted'])
    assert.deepEqual(schedule(tightenLimit(own, { retries: 9 }), 'quality'), [1, 1.5, 'exhausted'])
    assert.deepEqual(missionRetryOf({}), missionRetry)
  })
})

test('[SCH-088] a scheduler job is repeated without delay', () => {
  assert.deepEqual(schedule(schedulerRetry, 'work_failed'), [0, 0, 0, 'exhausted'])
})

test('[FLOW-077] three attempts of a dataflow task mean two delays of its own', () => {
  assert.deepEqual(schedule(flowRetry, 'work_failed'), [4.5, 9, 'exhausted'])
  assert.notDeepEqual(flowRetry.backoff, missionRetry.backoff)
  assert.equal(delayAfterAttempt(flowRetry, 1, 'validation_error'), 'not_retryable')
})

test('the outbox has a limit of its own', () => {
  const delays = schedule(outboxRetry, 'work_failed')
  assert.equal(delays.length, 20)
  assert.equal(delays.at(-1), 'exhausted')
  assert.equal(Math.max(...delays.filter((delay) => typeof delay === 'number')), 540)
})

test('the contract of a failed attempt names the next moment, or none', () => {
  const at = new Date('2026-05-01T12:00:00Z')
  const failed = { errorClass: 'quality', random: half, lastError: 'too short', at } as const
  assert.deepEqual(describeFailure(missionRetry, { ...failed, attempt: 2 }), {
    attempt: 2,
    max_attempts: 4,
    run_after: new Date('2026-05-01T12:00:20Z'),
    last_error: 'too short',
    error_class: 'quality',
  })
  assert.equal(describeFailure(missionRetry, { ...failed, attempt: 4 }).run_after, null)
})
