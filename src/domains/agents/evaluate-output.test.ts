/** The checks of an output: each kind passes and fails, with a structured result. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { evaluateOutput, evaluationInput } from './evaluate-output.ts'

const decide = (input: object, exists = true) => evaluateOutput(evaluationInput.parse(input), exists)

type Asked = { readonly evaluation_type: string; readonly [field: string]: unknown }
const cases: readonly (readonly [passes: Asked, fails: Asked])[] = [
  [
    { evaluation_type: 'sql_valid', sql: `select ';' as x from t where a = (1)` },
    { evaluation_type: 'sql_valid', sql: 'select 1; drop table t' },
  ],
  [
    { evaluation_type: 'row_counts_reconcile', expected: 100, actual: 99, tolerance: 0.01 },
    { evaluation_type: 'row_counts_reconcile', expected: 100, actual: 98 },
  ],
  [
    { evaluation_type: 'json_schema_valid', schema: { type: 'object', required: ['a'] }, value: { a: 1 } },
    { evaluation_type: 'json_schema_valid', schema: { type: 'object', required: ['a'] }, value: {} },
  ],
  [
    { evaluation_type: 'confidence_over_threshold', confidence: 0.8, threshold: 0.8 },
    { evaluation_type: 'confidence_over_threshold', confidence: 0.79, threshold: 0.8 },
  ],
  [
    { evaluation_type: 'pii_check', text: 'Revenue fell by 12 %.' },
    { evaluation_type: 'pii_check', text: 'Write to ada@example.com.' },
  ],
  [
    { evaluation_type: 'cost_under_budget', cost_units: 1, budget_units: 1 },
    { evaluation_type: 'cost_under_budget', cost_units: 1.1, budget_units: 1 },
  ],
]

const agentic = ['reviewer_critique', 'evaluator_ranking', 'safety_review', 'domain_validation']

test('[SWM-35] there are seven checks and four kinds in which an agent judges, and no other', () => {
  const kinds = [...cases.map(([{ evaluation_type }]) => evaluation_type), 'artifact_exists', ...agentic]
  const known = evaluationInput.options.flatMap(({ shape: { evaluation_type: type } }) =>
    'options' in type ? type.options : [...type.values],
  )
  assert.deepEqual(known.toSorted(), kinds.toSorted())
})

test('[SWM-35] what an agent judged has the five fields of every evaluation, and needs its artifact', () => {
  const judged = { decision: 'failed', confidence: 0.4, issues: ['The total is wrong.'], recommendation: 'Add it up.' }
  for (const evaluation_type of agentic) {
    const input = { evaluation_type, artifact_id: 'art_1', ...judged }
    assert.deepEqual(decide(input), { evaluation_type, ...judged })
    const without = decide(input, false)
    assert.deepEqual([without.decision, without.issues], ['failed', ['There is no such artifact.']])
    for (const field of ['decision', 'confidence', 'recommendation', 'artifact_id'])
      assert.ok(!evaluationInput.safeParse({ ...input, [field]: undefined }).success, field)
  }
})

test('[SWM-35] each check passes and fails with a decision, a confidence, issues and a recommendation', () => {
  for (const [passes, fails] of cases) {
    const good = decide(passes)
    assert.deepEqual([good.decision, good.issues], ['passed', []], JSON.stringify(passes))
    const bad = decide(fails)
    assert.equal(bad.decision, 'failed', JSON.stringify(fails))
    assert.ok(bad.issues.length > 0 && bad.recommendation !== '' && bad.confidence > 0 && bad.confidence <= 1)
  }
  const named = { evaluation_type: 'artifact_exists', artifact_id: 'art_1' }
  assert.deepEqual([decide(named).decision, decide(named, false).decision], ['passed', 'failed'])
  assert.equal(decide({ evaluation_type: 'sql_valid', sql: 'delete from t' }).issues.length, 2)
})
