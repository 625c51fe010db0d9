import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  describeDuration,
  durationFromMs,
  formatDuration,
  MAX_TIMER_MS,
  nextTimerMs,
  parseDuration,
  parseIdleTimeout,
} from './duration.ts'
import type { Decision } from './refusal.ts'

const shown = (decision: Decision<unknown>) => (decision.ok ? decision.value : decision.code)

describe('duration', () => {
  for (const [text, ms] of [
    ['1ms', 1],
    ['500ms', 500],
    ['5s', 5_000],
    ['10m', 600_000],
    ['2h', 7_200_000],
    ['40d', 3_456_000_000],
    ['366d', 31_622_400_000],
    ['31622400000ms', 31_622_400_000],
  ] as const) {
    test(`reads ${text}`, () => assert.equal(shown(parseDuration(text)), ms))
  }

  for (const text of [
    '',
    '5',
    '5 minutes',
    '5 m',
    '-1m',
    '0s',
    '367d',
    '31622400001ms',
    '1.5h',
    '2h5m',
    '5M',
    '5min',
    '1e3s',
    '999999999999d',
    'never',
    '0',
    '５m',
    '5m\n',
    'toString',
  ]) {
    test(`refuses ${JSON.stringify(text)} and says what is allowed`, () => {
      const decision = parseDuration(text)
      assert.equal(shown(decision), 'duration')
      assert.ok(!decision.ok && decision.reason.includes('ms, s, m, h, d; up to 366d'))
    })
  }

  test('a timeout that may be switched off knows never and 0, and nothing else besides durations', () => {
    assert.equal(shown(parseIdleTimeout('never')), 'never')
    assert.equal(shown(parseIdleTimeout('0')), 0)
    assert.equal(shown(parseIdleTimeout('5m')), 300_000)
    for (const text of ['Never', '00', '0s', 'off', '']) assert.equal(shown(parseIdleTimeout(text)), 'duration', text)
  })

  test('whole milliseconds in range only', () => {
    for (const ms of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 31_622_400_001]) {
      assert.equal(shown(durationFromMs(ms)), 'duration', String(ms))
    }
  })

  test('every duration is written as a text that reads back the same', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 366 }),
        fc.constantFrom(1, 1_000, 60_000, 3_600_000, 86_400_000),
        (n, size) => {
          const decision = durationFromMs(n * size)
          assert.ok(decision.ok)
          assert.equal(shown(parseDuration(formatDuration(decision.value))), n * size)
        },
      ),
    )
    const decision = durationFromMs(5_400_000)
    assert.equal(decision.ok && formatDuration(decision.value), '90m')
  })

  for (const [ms, text] of [
    [0, '0 ms'],
    [-5, '0 ms'],
    [999, '999 ms'],
    [59_999, '59 s 999 ms'],
    [7_500_000, '2 h 5 min'],
    [7_200_000, '2 h'],
    [86_399_999, '23 h 59 min'],
    [90_000_000, '1 d 1 h'],
    [86_400_000 + 5_000, '1 d'],
  ] as const) {
    test(`tells a person ${text} for ${ms}`, () => assert.equal(describeDuration(ms), text))
  }

  test('a wait of 366 days is a row of timers, none above the limit, and they add up', () => {
    let remaining = 31_622_400_000
    let timers = 0
    while (remaining > 0) {
      const slice = nextTimerMs(remaining)
      assert.ok(slice >= 1 && slice <= 2_147_483_647)
      remaining -= slice
      timers += 1
    }
    assert.equal(remaining, 0)
    assert.equal(timers, 15)
    assert.equal(nextTimerMs(-7), 0)
    assert.equal(nextTimerMs(0.2), 1)
    assert.equal(MAX_TIMER_MS, 2_147_483_647)
  })
})
