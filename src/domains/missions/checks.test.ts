/** The checks of outputs that need no work, what a verifier may return, and the findings about checks of a plan. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import type { JsonValue } from '#kernel/json-value'
import { aPlan, planTask } from '#test/missions'
import { type Check, digestOutput, judgeOutput, type Output, readVerdict } from './checks.ts'
import { readPlan } from './plan.ts'

const output = (more: Partial<Output> = {}): Output => ({ result: null, artifact: null, text: null, ...more })
const verdictOf = (check: Check, more: Partial<Output>) => judgeOutput(check, output(more))?.verdict
const report = { artifact_type: 'report', size_bytes: 10, checksum: 'c' }

describe('checks', () => {
  test('each check passes what it asks for and fails the rest', () => {
    const schema = { type: 'object', required: ['total'], properties: { total: { type: 'integer' } } }
    const text = '# Release 2.4\n\nRisks\n-----\n\n<h2 class="x">Costs</h2>\n## Next  steps ##\n'
    const cases: readonly (readonly [Check, Partial<Output>, 'pass' | 'fail'])[] = [
      [{ schema }, { result: { total: 3 } }, 'pass'],
      [{ schema }, { result: { total: 'x' } }, 'fail'],
      [{ schema }, { result: null }, 'fail'],
      [{ sections: ['risks', 'Costs', 'Next steps', 'release 2.4'] }, { text }, 'pass'],
      [{ sections: ['Risks', 'Plan'] }, { text }, 'fail'],
      [{ sections: ['Risks'] }, { text: 'Risks are many' }, 'fail'],
      [{ sections: ['Risks'] }, {}, 'fail'],
      [{ artifact: {} }, { artifact: report }, 'pass'],
      [{ artifact: {} }, {}, 'fail'],
      [{ artifact: { type: 'report', bytes_min: 10, bytes_max: 10 } }, { artifact: report }, 'pass'],
      [{ artifact: { type: 'invoice' } }, { artifact: report }, 'fail'],
      [{ artifact: { bytes_min: 11 } }, { artifact: report }, 'fail'],
      [{ artifact: { bytes_max: 9 } }, { artifact: report }, 'fail'],
      [{ exit_code: 0 }, { result: { exit_code: 0 } }, 'pass'],
      [{ exit_code: 0 }, { result: { exit_code: 1 } }, 'fail'],
      [{ exit_code: 0 }, { result: 'exit_code' }, 'fail'],
    ]
    for (const [check, given, expected] of cases) assert.equal(verdictOf(check, given), expected, JSON.stringify(check))
    for (const check of [{ task: 'Judge' }, { person: {} }, { worker: true }] as const)
      assert.equal(verdictOf(check, {}), undefined)
    const missing = judgeOutput({ sections: ['Risks', 'Plan'] }, output({ text }))
    assert.deepEqual([missing?.score, missing?.feedback], [0.5, 'Missing sections: Plan.'])
  })

  test('the feedback of a schema names places and rules, never a value', () => {
    const schema = { type: 'object', properties: { card: { type: 'string', maxLength: 3 } } }
    const verdict = judgeOutput({ schema }, output({ result: { card: '4111111111111111' } }))
    assert.equal(verdict?.verdict, 'fail')
    assert.match(verdict?.feedback ?? '', /card: maxLength/)
    assert.doesNotMatch(verdict?.feedback ?? '', /4111/)
  })

  test('a verifier returns a verdict, a score or both; anything else is unsure', () => {
    const read = (result: JsonValue) => readVerdict({ task: 'Judge' }, result, new Map())
    assert.deepEqual(read({ verdict: 'fail', score: 0.2, feedback: 'short' }), {
      verdict: 'fail',
      score: 0.2,
      feedback: 'short',
    })
    assert.deepEqual(read({ score: 1 }), { verdict: 'pass', score: 1, feedback: null })
    assert.equal(read({ verdict: 'unsure' }).verdict, 'unsure')
    for (const none of [null, 'pass', {}, { feedback: 'fine' }, { score: 2 }, { verdict: 'yes' }, []])
      assert.equal(read(none).verdict, 'unsure', JSON.stringify(none))
    assert.equal(read({ score: 0.1, feedback: 'x'.repeat(3_000) }).feedback?.length, 2_000)
  })

  test('a query reconciles if it returns what the result of the task says', () => {
    const own = new Map([['load', { rows: 7 }]])
    const check: Check = { sql: 'Count Rows', path: '/count', equals: { $from: 'load', path: '/rows' } }
    assert.equal(readVerdict(check, { count: 7 }, own).verdict, 'pass')
    assert.equal(readVerdict(check, { count: 8 }, own).verdict, 'fail')
    assert.equal(readVerdict(check, {}, own).verdict, 'fail')
    assert.equal(readVerdict(check, { count: 7 }, new Map()).verdict, 'unsure')
  })

  test('the digest of an output changes with its result and with its artifact, and with nothing else', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), fc.option(fc.string(), { nil: null }), (one, other, artifact) => {
        const [a, b] = [one, other].map((result) => JSON.parse(JSON.stringify(result)) as JsonValue)
        const digest = (result: JsonValue, of = artifact) => digestOutput({ result, artifact: of })
        assert.equal(digest(a ?? null), digest(a ?? null))
        assert.equal(digest(a ?? null) === digest(b ?? null), JSON.stringify(a) === JSON.stringify(b) || isSame(a, b))
        assert.notEqual(digest(a ?? null), digest(a ?? null, `${artifact ?? ''}!`))
      }),
    )
  })
  const isSame = (one: unknown, other: unknown) => {
    try {
      assert.deepStrictEqual(one, other)
      return true
    } catch {
      return false
    }
  }

  test('findings about checks: unknown task, foreign result, broken schema, a check after a person, an unknown kind', () => {
    const read = (...verify: unknown[]) => {
      const plan = aPlan(planTask('up'), planTask('a', { depends_on: ['up'], verify: verify as Check[] }))
      const decided = readPlan(JSON.parse(JSON.stringify(plan)) as JsonValue, {
        tasks: new Set(['Step', 'Judge']),
        agents: new Set(['Judge']),
      })
      if (decided.ok) return []
      return (decided.facts?.['findings'] as { code: string; path: string }[] | undefined)?.map(({ code, path }) => [
        code,
        path,
      ])
    }
    assert.deepEqual(
      read({ sections: ['Risks'] }, { task: 'Judge', payload: { x: { $from: 'a' } } }, { person: {} }),
      [],
    )
    assert.deepEqual(
      read({ task: 'Jude' }, { agent: 'Judge', payload: { x: { $from: 'up' } } }, { person: {} }, { exit_code: 0 }),
      [
        ['unknown_task', 'plan.tasks[1].verify[0]'],
        ['reference', 'plan.tasks[1].verify[1].payload.x'],
        ['check', 'plan.tasks[1].verify[2]'],
      ],
    )
    assert.deepEqual(read({ schema: { type: 'nothing' } }), [['check', 'plan.tasks[1].verify[0].schema']])
    assert.deepEqual(read({ spelling: true }), [['shape', 'plan.tasks[1].verify[0]']])
    assert.deepEqual(read({ task: 'Judge', sections: ['Risks'] }), [['shape', 'plan.tasks[1].verify[0]']])
  })
})
