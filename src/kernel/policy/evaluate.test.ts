/** The evaluator: default, precedence, faults, trace; then 10,000 random policies against a scan that knows no index. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { evaluatePolicy } from './evaluate.ts'
import {
  compileRules,
  type PolicyAnswer,
  policyCategories,
  type PolicyDecision,
  policyDecisions,
  type PolicyInput,
  type PolicyRule,
  type RequiredApproval,
  selectRules,
} from './policy.ts'

const question: PolicyInput = { action: 'publish_report', command: {}, task: {}, context: {} }

type Draft = Partial<PolicyAnswer> & { readonly actions?: readonly string[] | '*'; readonly throws?: true }

/** A rule for all actions that always answers the same; without a decision it has no opinion. */
function aRule(name: string, draft: Draft = {}): PolicyRule {
  const { actions = '*', throws, decision, ...rest } = draft
  return {
    name,
    category: 'permission',
    actions,
    decide: () => {
      if (throws) throw new Error(`${name} broke`)
      return decision === undefined ? undefined : { decision, ...rest }
    },
  }
}

function ask(rules: readonly PolicyRule[], input = question) {
  const policy = compileRules('v7', rules)
  assert.ok(policy.ok)
  return evaluatePolicy(policy.value, input)
}

describe('decision', () => {
  test('[POL-01] a result has its four fields, the trace and the version', () => {
    assert.deepEqual(ask([aRule('who', { decision: 'allow' })]), {
      decision: 'allow',
      reasons: [],
      required_approvals: [],
      metadata: {},
      trace: [{ rule: 'who', category: 'permission', answer: 'allow' }],
      policy_version: 'v7',
    })
  })

  test('[POL-02] there are seven decisions', () => {
    assert.deepEqual([...policyDecisions].toSorted(), [
      'allow',
      'delay',
      'deny',
      'escalate',
      'require_approval',
      'require_more_input',
      'route',
    ])
    for (const decision of policyDecisions)
      assert.equal(ask([aRule('one', { decision }), aRule('who', { decision: 'allow' })]).decision, decision)
  })

  test('[POL-05] there are twelve categories, and a rule of any other is refused', () => {
    assert.deepEqual(
      [...policyCategories],
      [
        'permission',
        'cost',
        'risk',
        'data_safety',
        'approval_requirement',
        'memory_consent',
        'data_access',
        'connector_scope',
        'external_sharing',
        'rate_quota',
        'environment',
        'agent_spawn',
      ],
    )
    // The compiler forbids it; a manifest from outside does not.
    const stranger = { ...aRule('x'), category: 'mood' as 'cost' }
    const compiled = compileRules('v1', [stranger])
    assert.equal(compiled.ok ? 'compiled' : compiled.code, 'policy.rule.invalid')
  })

  test('an action that no rule allows is denied, and so is a route without a rule that allows it', () => {
    for (const rules of [[], [aRule('silent')], [aRule('other', { decision: 'allow', actions: ['other_action'] })]]) {
      const result = ask(rules)
      assert.equal(result.decision, 'deny')
      assert.deepEqual(result.reasons, ['no rule allows "publish_report"'])
    }
    assert.equal(ask([aRule('fast_lane', { decision: 'route' })]).decision, 'deny')
    assert.equal(
      ask([aRule('fast_lane', { decision: 'route' }), aRule('who', { decision: 'allow' })]).decision,
      'route',
    )
  })

  test('[POL-04] each decision gives way to the ones before it', () => {
    const order: PolicyDecision[] = [
      'deny',
      'require_more_input',
      'escalate',
      'require_approval',
      'delay',
      'route',
      'allow',
    ]
    for (const [at, stronger] of order.entries())
      for (const weaker of order.slice(at + 1)) {
        const rules = [
          aRule('who', { decision: 'allow' }),
          aRule('a', { decision: weaker }),
          aRule('b', { decision: stronger }),
        ]
        assert.equal(ask(rules).decision, stronger, `${stronger} over ${weaker}`)
        assert.equal(ask(rules.toReversed()).decision, stronger, `${stronger} over ${weaker}, other order`)
      }
  })

  test('[POL-04] all reasons are kept and the approvals are a union', () => {
    const result = ask([
      aRule('a', { decision: 'allow', reasons: ['is the owner'] }),
      aRule('b', {
        decision: 'require_approval',
        reasons: ['leaves the organisation'],
        required_approvals: ['legal', 'data_owner'],
      }),
      aRule('c', { decision: 'escalate', reasons: ['is expensive'], required_approvals: ['data_owner', 'cfo'] }),
    ])
    assert.equal(result.decision, 'escalate')
    assert.deepEqual(result.reasons, ['is the owner', 'leaves the organisation', 'is expensive'])
    assert.deepEqual(result.required_approvals, ['cfo', 'data_owner', 'legal'])
  })

  test('metadata is kept by rule, whatever the rule is called', () => {
    const result = ask([
      aRule('__proto__', { decision: 'allow', metadata: { queue: 'fast' } }),
      aRule('b', { decision: 'delay', metadata: { seconds: 30 } }),
    ])
    assert.deepEqual(Object.keys(result.metadata), ['__proto__', 'b'])
    assert.deepEqual(result.metadata['b'], { seconds: 30 })
  })
})

describe('faults', () => {
  test('[POL-12] a rule that throws counts as deny with a reason', () => {
    const result = ask([aRule('who', { decision: 'allow' }), aRule('bad', { throws: true })])
    assert.equal(result.decision, 'deny')
    assert.deepEqual(result.reasons, ['rule bad failed: "bad broke"'])
    assert.deepEqual(result.trace[1], { rule: 'bad', category: 'permission', answer: 'deny', fault: true })
  })

  test('[POL-12] an answer that is none counts as deny', () => {
    for (const answer of [null, {}, { decision: 'maybe' }, 'allow', Promise.resolve({ decision: 'allow' })]) {
      const rule = { ...aRule('odd'), decide: () => answer as unknown as PolicyAnswer }
      const result = ask([aRule('who', { decision: 'allow' }), rule])
      assert.equal(result.decision, 'deny')
      assert.equal(result.trace[1]?.fault, true)
    }
    const reasons = { ...aRule('odd'), decide: () => ({ decision: 'allow', reasons: 7 }) as unknown as PolicyAnswer }
    assert.equal(ask([reasons]).decision, 'deny')
  })

  test('[POL-12] an unknown policy name is refused with the nearest one', () => {
    const known = [aRule('permission'), aRule('cost'), aRule('data_access')]
    const selected = selectRules(['cost', 'permision'], known)
    assert.ok(!selected.ok)
    assert.equal(selected.code, 'policy.rule.unknown')
    assert.equal(selected.hint, 'Did you mean `permission`?')
    const rules = selectRules(['data_access', 'cost'], known)
    assert.deepEqual(rules.ok && rules.value.map((rule) => rule.name), ['data_access', 'cost'])
  })

  test('two rules of one name, a rule without a name and one without actions are refused', () => {
    const codeOf = (...rules: PolicyRule[]) => {
      const compiled = compileRules('v1', rules)
      return compiled.ok ? 'compiled' : compiled.code
    }
    assert.equal(codeOf(aRule('a'), aRule('a')), 'policy.rule.duplicate')
    assert.equal(codeOf(aRule('')), 'policy.rule.invalid')
    assert.equal(codeOf(aRule('a', { actions: [] })), 'policy.rule.invalid')
  })
})

test('the trace names every consulted rule in list order, and no other', () => {
  const result = ask([
    aRule('z', { decision: 'allow', actions: ['publish_report', 'publish_report'] }),
    aRule('not_asked', { decision: 'deny', actions: ['book_hotel'] }),
    aRule('a'),
  ])
  assert.deepEqual(result.trace, [
    { rule: 'z', category: 'permission', answer: 'allow' },
    { rule: 'a', category: 'permission', answer: 'no_opinion' },
  ])
})

const actionNames = ['read', 'write', 'share', 'toString', '__proto__']
const someDraft: fc.Arbitrary<Draft> = fc.record(
  {
    decision: fc.constantFrom(...policyDecisions),
    reasons: fc.array(fc.string({ maxLength: 3 }), { maxLength: 2 }),
    required_approvals: fc.array(
      fc.oneof(
        fc.constantFrom('legal', 'cfo', 'owner'),
        fc.record({ role: fc.constantFrom('legal', 'cfo', 'owner'), count: fc.integer({ min: 1, max: 3 }) }),
      ),
      { maxLength: 2 },
    ),
    metadata: fc.constant({ note: 1 }),
    throws: fc.constant(true as const),
    actions: fc.oneof(fc.constant('*' as const), fc.subarray(actionNames, { minLength: 1 })),
  },
  { requiredKeys: [] },
)
const someRules = fc
  .array(someDraft, { maxLength: 12 })
  .map((drafts) => drafts.map((draft, at) => aRule(`rule${at}`, draft)))
const someAction = fc.constantFrom(...actionNames, 'unnamed')

/** Scans all rules; knows neither the index nor the code under test. */
function evaluateByScan(rules: readonly PolicyRule[], input: PolicyInput) {
  const said: { rule: string; decision: string; reasons: readonly string[]; approvals: readonly RequiredApproval[] }[] =
    []
  const asked: string[] = []
  for (const rule of rules) {
    if (rule.actions !== '*' && !rule.actions.includes(input.action)) continue
    asked.push(rule.name)
    try {
      const answer = rule.decide(input)
      if (!answer) continue
      const { decision, reasons = [], required_approvals: approvals = [] } = answer
      said.push({ rule: rule.name, decision, reasons, approvals })
    } catch {
      said.push({
        rule: rule.name,
        decision: 'deny',
        reasons: [`rule ${rule.name} failed: "${rule.name} broke"`],
        approvals: [],
      })
    }
  }
  const reasons = said.flatMap((line) => line.reasons)
  const has = (decision: string) => said.some((line) => line.decision === decision)
  let decision = 'nothing'
  if (has('allow')) decision = 'allow'
  if (has('route') && has('allow')) decision = 'route'
  for (const stronger of ['delay', 'require_approval', 'escalate', 'require_more_input', 'deny'])
    if (has(stronger)) decision = stronger
  if (decision === 'nothing') {
    decision = 'deny'
    reasons.push(`no rule allows "${input.action}"`)
  }
  const each = said
    .flatMap((line) => line.approvals)
    .map((one) => (typeof one === 'string' ? { role: one, count: 1 } : one))
  const approvals = [...new Set(each.map(({ role }) => role))].toSorted().map((role) => {
    const count = Math.max(...each.filter((one) => one.role === role).map((one) => one.count))
    return count > 1 ? { role, count } : role
  })
  return { decision, reasons, approvals, asked }
}

describe('properties', () => {
  test('[POL-04] indexed and scanned evaluation agree on 10,000 random policies', () => {
    fc.assert(
      fc.property(someRules, someAction, (rules, action) => {
        const input = { ...question, action }
        const result = ask(rules, input)
        const expected = evaluateByScan(rules, input)
        assert.equal(result.decision, expected.decision)
        assert.deepEqual(result.reasons, expected.reasons)
        assert.deepEqual(result.required_approvals, expected.approvals)
        assert.deepEqual(
          result.trace.map((line) => line.rule),
          expected.asked,
        )
      }),
      { numRuns: 10_000 },
    )
  })

  test('[POL-04] the order of the rules does not change the decision', () => {
    fc.assert(
      fc.property(someRules, someAction, fc.infiniteStream(fc.nat()), (rules, action, keys) => {
        const input = { ...question, action }
        const mixed = rules
          .map((rule) => ({ rule, key: keys.next().value ?? 0 }))
          .toSorted((a, b) => a.key - b.key)
          .map(({ rule }) => rule)
        const [one, other] = [ask(rules, input), ask(mixed, input)]
        assert.equal(other.decision, one.decision)
        assert.deepEqual(other.required_approvals, one.required_approvals)
        assert.deepEqual(other.reasons.toSorted(), one.reasons.toSorted())
      }),
      { numRuns: 2_000 },
    )
  })

  test('[POL-08] evaluation leaves deeply frozen input alone and answers the same again', () => {
    const seesAmount: PolicyRule = {
      ...aRule('amount'),
      decide: ({ command }) => ({ decision: Number(command['amount']) > 5 ? 'deny' : 'allow' }),
    }
    fc.assert(
      fc.property(someRules, someAction, fc.jsonValue(), fc.nat({ max: 10 }), (rules, action, payload, amount) => {
        const input = deepFreeze({ action, command: { payload, amount }, task: { payload }, context: {} })
        const compiled = compileRules('v1', [...rules, seesAmount])
        assert.ok(compiled.ok)
        const policy = deepFreeze(compiled.value)
        assert.deepEqual(evaluatePolicy(policy, input), evaluatePolicy(policy, input))
      }),
      { numRuns: 300 },
    )
  })

  test('[POL-08] a rule that tries to change a frozen input has denied', () => {
    const meddler: PolicyRule = {
      ...aRule('meddler'),
      decide: ({ context }) => {
        // The type says readonly; a rule in plain JavaScript would not know.
        Object.assign(context, { approved: true })
        return { decision: 'allow' }
      },
    }
    assert.equal(ask([meddler], deepFreeze(structuredClone(question))).decision, 'deny')
  })
})

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) for (const part of Object.values(value)) deepFreeze(part)
  return Object.freeze(value)
}
