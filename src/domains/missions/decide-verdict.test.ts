/** Verdicts: thresholds, how verdicts join, and what follows for an output that did not pass. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { missionConfig, readMissionConfig } from './config.ts'
import { applyThresholds, decideRefused, joinVerdicts, PASSED, type OutputVerdict, verdicts } from './decide-verdict.ts'

const config = missionConfig.parse({})
const score = fc.integer({ min: 0, max: 100 }).map((hundredths) => hundredths / 100)
const verdict: fc.Arbitrary<OutputVerdict> = fc.record({
  verdict: fc.constantFrom(...verdicts),
  score: fc.option(score, { nil: null }),
  feedback: fc.option(fc.constantFrom('a', 'b', 'c'), { nil: null }),
})
const thresholds = fc
  .tuple(score, score)
  .map(([a, b]) => ({ pass_threshold: Math.max(a, b), human_threshold: Math.min(a, b) }))
const rank = ({ verdict: value }: OutputVerdict) => verdicts.indexOf(value)
const aTask = (attempt_number: number, max_retries?: number) => ({
  attempt_number,
  spec: { temp_id: 'a', run: { task: 'Step', payload: {} }, ...(max_retries === undefined ? {} : { max_retries }) },
})

describe('verdicts', () => {
  test('the score decides between pass, a person and fail, and never makes a verdict better', () => {
    fc.assert(
      fc.property(verdict, thresholds, (given, limits) => {
        const decided = applyThresholds(given, limits)
        assert.ok(rank(decided) >= rank(given))
        if (given.score === null) assert.deepEqual(decided, given)
        else {
          const zone = given.score >= limits.pass_threshold ? 0 : given.score >= limits.human_threshold ? 1 : 2
          assert.equal(rank(decided), Math.max(zone, rank(given)))
        }
        assert.deepEqual(applyThresholds(decided, limits), decided)
      }),
    )
  })

  test('verdicts join in any order: the worst counts, with the lowest score', () => {
    fc.assert(
      fc.property(verdict, verdict, verdict, (a, b, c) => {
        const essence = ({ verdict: value, score: lowest }: OutputVerdict) => [value, lowest]
        assert.deepEqual(essence(joinVerdicts(a, b)), essence(joinVerdicts(b, a)))
        assert.deepEqual(joinVerdicts(joinVerdicts(a, b), c), joinVerdicts(a, joinVerdicts(b, c)))
        assert.deepEqual(joinVerdicts(a, PASSED), { ...a, feedback: a.feedback })
        assert.equal(rank(joinVerdicts(a, b)), Math.max(rank(a), rank(b)))
      }),
    )
  })

  test('a refused output is repeated while retries remain and nothing stands; else a person decides', () => {
    const failed: OutputVerdict = { verdict: 'fail', score: 0.1, feedback: 'It is short.' }
    assert.deepEqual(decideRefused(failed, aTask(1), config, []), {
      kind: 'retry',
      delayMs: 10_000,
      retriesRemaining: 3,
    })
    assert.equal(decideRefused(failed, aTask(1, 0), config, []).kind, 'failed')
    assert.equal(decideRefused(failed, aTask(4), config, ['mail.send']).kind, 'failed')
    const standing = decideRefused(failed, aTask(1), config, ['mail.send'])
    assert.deepEqual([standing.kind, 'reason' in standing && /mail\.send/.test(standing.reason)], ['review', true])
    assert.equal(decideRefused({ ...failed, verdict: 'unsure' }, aTask(4), config, []).kind, 'review')
  })

  test('a retry is never decided while an effect stands', () => {
    fc.assert(
      fc.property(verdict, fc.integer({ min: 1, max: 6 }), (given, attempt) => {
        if (given.verdict === 'pass') return
        assert.notEqual(decideRefused(given, aTask(attempt), config, ['pay.card']).kind, 'retry')
      }),
    )
  })

  test('thresholds that leave no zone for people are refused with their place', () => {
    const read = readMissionConfig({ verification: { pass_threshold: 0.4, human_threshold: 0.5 } })
    assert.deepEqual([read.ok, !read.ok && read.path], [false, 'config.verification.human_threshold'])
    for (const wrong of [-0.1, 1.1, Number.NaN, '0.5'])
      assert.equal(readMissionConfig({ verification: { pass_threshold: wrong } }).ok, false)
    assert.equal(readMissionConfig({ verification: { pass: 0.5 } }).ok, false)
    assert.deepEqual(config.verification, { pass_threshold: 0.8, human_threshold: 0.5 })
  })
})
