/** The typed definition of a command: the contract that it derives, the types that flow through it, and the mistakes that it refuses. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { z } from 'zod'
import { httpConnector, mcpConnector } from '#domains/connectors'
import { errorClasses } from '#kernel/error-classes'
import { from } from '#kernel/step'
import { allow, ask, delay, deny, needInput } from './answers.ts'
import { defineCommand, expandCatalog } from './define-command.ts'
import {
  type CommandType,
  defineCommandType,
  type Definition,
  defineFunction,
  definePolicy,
  defineTask,
  ofKind,
} from './definitions.ts'
import { defineEffect } from './effect-definition.ts'
import { anyHost, openCatalog } from './open-catalog.ts'
import { shippedPolicies } from './shipped-policies.ts'

const score = defineEffect('fraud.score', {
  input: z.object({ customer: z.string() }),
  class: 'read',
  do: ({ input }) => Promise.resolve({ risk: input.customer.length, charge_id: 'ch_1' }),
})
const pay = defineEffect('payments.refund', {
  input: z.object({ order_id: z.string(), amount: z.number(), charge: z.string().optional() }),
  class: 'keyed',
  risk_level: 'medium',
  do: ({ input }) => Promise.resolve({ refund_id: `re_${input.order_id}` }),
  undo: ({ result }) => Promise.resolve({ undone: result.refund_id }),
})
const input = z.object({ order_id: z.string(), customer: z.string(), amount: z.number().positive() })
const policy = ({ amount }: { amount: number }) =>
  amount > 5_000 ? deny('Above 5000.') : amount >= 50 ? ask(1, 'refund-approver') : allow()

const refund = defineCommand('refund', {
  input,
  key: ({ order_id }) => `refund:${order_id}`,
  policy,
  steps: ({ order_id, amount, customer }) => [score({ customer }), pay({ order_id, amount })],
  onFailure: 'undo',
})

const compiled = (definitions: readonly Definition[]) => {
  const catalog = openCatalog([...shippedPolicies, ...definitions], anyHost)
  assert.ok(catalog.ok, catalog.ok ? '' : catalog.reason)
  const task = catalog.value.tasks.get('refund')
  assert.ok(task)
  const { spec, policyNames, key, queue } = task
  const { payload, ...type } = task.type
  return { spec, type, policyNames, key, queue, payload: z.toJSONSchema(payload, { io: 'input' }) }
}
const typeOf = (definitions: readonly Definition[]) => {
  const [type] = ofKind(definitions, 'command_type')
  assert.ok(type)
  return type
}

test('the short form and the layer below give the same contract', () => {
  const [rule] = ofKind(refund.definitions, 'policy')
  const byHand: Definition[] = [
    score.source,
    pay.source,
    definePolicy(
      { name: 'refund', category: 'approval_requirement', actions: '*', decide: () => allow() },
      { version: rule?.version ?? '' },
    ),
    defineFunction({ name: 'refund', plan: () => [] }),
    defineCommandType({
      name: 'refund',
      description: 'refund',
      payload: input.strict(),
      side_effects: ['fraud.score', 'payments.refund'],
      error_classes: errorClasses,
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created', 'policy_evaluated', 'plan_created', 'effect_executed'],
      risk_level: 'medium',
      compensation: { supported: true },
      cancellation_mode: 'compensate_then_stop',
      on_failure: 'undo',
      idempotency: { required: true, key_template: 'refund:{order_id}' },
    }),
    defineTask({
      name: 'refund',
      description: 'refund',
      command_type: 'refund',
      function_name: 'refund',
      ingress_types: ['user_request', 'agent_action', 'scheduled_trigger', 'webhook'],
      async_required: true,
      policy_checks: ['permission', 'data_safety', 'refund'],
      risk_level: 'medium',
    }),
  ]
  assert.deepEqual(compiled(expandCatalog([refund]).catalog), compiled(byHand))
})

test('a misspelt field is refused, with the field that was meant', () => {
  const terms = { input: z.object({ id: z.string() }), policy: () => allow(), steps: () => [score({ customer: 'a' })] }
  const wrong = { ...terms, onFailur: 'undo' } as typeof terms
  assert.throws(() => defineCommand('typo', wrong), /typo has no field onFailur; did you mean onFailure\?/)
  const spec = { input: z.object({}), do: () => Promise.resolve({}) }
  const effect = (more: object) => () => defineEffect('typo.do', { ...spec, ...more })
  assert.throws(effect({ clas: 'read' }), /typo\.do has no field clas; did you mean class\?/)
  assert.throws(effect({ undo: { do: spec.do, withinMs: 1 } }), /The undo of typo\.do has no field withinMs/)
})

test('types flow from the input into key, policy, steps, result and the definition', () => {
  const typed = defineCommand('typed', {
    input: z.object({ id: z.string(), limit: z.number().default(5) }),
    key: ({ id }) => `typed:${id}`,
    facts: { spent: ({ input: of }) => Promise.resolve(of.limit * 2) },
    policy: ({ limit }, { facts, requester }) =>
      facts.spent > limit && !requester.orgRoles.includes('finance') ? deny('Spent.') : allow(),
    steps({ id, limit }) {
      const scored = score({ customer: id })
      // @ts-expect-error an unknown field of a result
      assert.ok(from(scored, 'charge'))
      // @ts-expect-error a field that the operation does not take
      assert.ok(pay({ order_id: id, amount: limit, colour: 'red' }))
      // @ts-expect-error a value of another type
      assert.ok(pay({ order_id: limit, amount: limit }))
      // @ts-expect-error a field that the input does not have
      const missing: unknown = ((given: { id: string }) => given.limit)({ id })
      assert.equal(missing, undefined)
      return [scored, pay({ order_id: id, amount: limit, charge: from(scored, 'charge_id') })]
    },
    result: (scored, paid) => ({ risk: scored.risk + 1, refund: paid.refund_id }),
  })
  const shape = (given: typeof typed.resultType): number | undefined => given?.risk
  assert.equal(shape({ risk: 2, refund: 're_1' }), 2)
  // @ts-expect-error the result has no such field
  const unknown = (given: NonNullable<typeof typed.resultType>): unknown => given.amount
  assert.equal(unknown({ risk: 2, refund: 're_1' }), undefined)
  assert.deepEqual(typeOf(typed.definitions).side_effects, ['fraud.score', 'payments.refund'])
})

describe('what is derived', () => {
  const only = (more: Partial<Parameters<typeof defineCommand>[1]> = {}) =>
    typeOf(
      defineCommand('one', {
        input: z.object({ fast: z.boolean(), kind: z.enum(['a', 'b']), note: z.string().optional() }),
        policy: () => allow(),
        steps: ({ fast, kind, note }) => [
          ...(fast ? [score({ customer: kind })] : []),
          ...(kind === 'b' ? [pay({ order_id: 'o', amount: 1 })] : []),
          ...(note === undefined ? [] : [rare({ note })]),
        ],
        ...(more as object),
      }).definitions,
    )
  const rare = defineEffect('rare.note', {
    input: z.object({ note: z.string() }),
    risk_level: 'high',
    do: () => Promise.resolve({}),
  })

  test('the effects of every branch that an example of the input reaches', () => {
    const { side_effects, risk_level } = only()
    assert.deepEqual(side_effects.toSorted(), ['fraud.score', 'payments.refund', 'rare.note'])
    assert.equal(risk_level, 'high')
  })

  test('a branch that no example reaches is named in uses', () => {
    const hidden = (uses: readonly (typeof rare)[]) =>
      typeOf(
        defineCommand('hidden', {
          input: z.object({ code: z.string() }),
          policy: () => allow(),
          uses,
          steps: ({ code }) => [code === 'xyzzy' ? rare({ note: code }) : score({ customer: code })],
        }).definitions,
      ).side_effects
    assert.deepEqual(hidden([]), ['fraud.score'])
    assert.deepEqual(hidden([rare]), ['rare.note', 'fraud.score'])
  })

  test('every derived value can be overridden', () => {
    const type: Partial<CommandType> = { cancellable_by: ['admin'], audit: ['command_created'], version: '2.0.0' }
    const made = only({ risk: 'low', type, approval: { approver: 'role:boss' } })
    assert.deepEqual(
      [made.risk_level, made.cancellable_by, made.audit, made.version, made.approval.approver],
      ['low', ['admin'], ['command_created'], '2.0.0', 'role:boss'],
    )
  })

  test('without an undo nothing is compensated, and unknown fields are refused', () => {
    const { definitions } = defineCommand('greet', {
      input: z.object({ customer: z.string() }),
      policy: ['rate'],
      steps: (given) => [score(given)],
    })
    const type = typeOf(definitions)
    assert.deepEqual([type.compensation.supported, type.cancellation_mode], [false, 'graceful'])
    assert.equal(type.payload.safeParse({ customer: 'c', more: 1 }).success, false)
    assert.deepEqual(ofKind(definitions, 'task')[0]?.spec.policy_checks, ['permission', 'data_safety', 'rate'])
  })
})

test('a key that does more than insert fields is refused, with a template to write instead', () => {
  for (const key of [
    ({ order_id }: z.infer<typeof input>) => `refund:${order_id.toUpperCase()}`,
    ({ order_id }: z.infer<typeof input>) => `refund:${order_id.slice(0, 3)}`,
    ({ order_id, amount }: z.infer<typeof input>) => (amount > 3 ? `a:${order_id}` : `b:${order_id}${amount}`),
    ({ order_id }: z.infer<typeof input>) => `refund:${order_id.replaceAll('-', '')}`,
    ({ order_id }: z.infer<typeof input>) => `refund:${order_id.trim()}`,
    () => 'refund:all',
  ])
    assert.throws(
      () => defineCommand('refund', { input, key, policy: () => allow(), steps: () => [score({ customer: 'c' })] }),
      /write a template such as 'refund:\{order_id\}'/,
    )
  const { definitions } = defineCommand('refund', {
    input,
    key: 'r:{order_id}:{customer}',
    policy,
    steps: () => [score({ customer: 'c' })],
  })
  assert.equal(typeOf(definitions).idempotency.key_template, 'r:{order_id}:{customer}')
  const nested = defineCommand('nested', {
    input: z.object({ customer: z.object({ id: z.string() }) }),
    key: ({ customer }) => `nested:${customer.id}`,
    policy: () => allow(),
    steps: ({ customer }) => [score({ customer: customer.id })],
  })
  assert.equal(typeOf(nested.definitions).idempotency.key_template, 'nested:{customer.id}')
})

test('a definition whose steps cannot be found is refused, with the reason', () => {
  const policyOf = () => allow()
  const make = (schema: z.ZodObject, steps: () => readonly ReturnType<typeof score>[]) => () =>
    defineCommand('lost', { input: schema, policy: policyOf, steps })
  const strictId = z.object({ id: z.string().regex(/^ord_\d+$/) })
  assert.throws(
    make(strictId, () => [score({ customer: 'c' })]),
    /add one with \.meta/,
  )
  assert.ok(make(strictId.meta({ example: { id: 'ord_1' } }), () => [score({ customer: 'c' })])())
  assert.throws(
    make(z.object({}), () => []),
    /name its operations in uses/,
  )
  assert.throws(
    make(z.object({}), () => {
      throw new Error('broken')
    }),
    /fail: Error: broken/,
  )
  assert.throws(
    make(z.object({ at: z.coerce.date() }).meta({ example: { at: '2026-05-01' } }), () => [score({ customer: 'c' })]),
    /JSON/,
  )
  assert.throws(
    () =>
      defineCommand('f', {
        input: z.object({}),
        facts: { a: () => Promise.resolve(1) },
        policy: ['rate'],
        steps: () => [score({ customer: 'c' })],
      }),
    /need a policy that is a function/,
  )
})

test('a policy that answers nothing denies, and further checks are asked in addition', () => {
  const { definitions } = defineCommand('quiet', {
    input: z.object({}),
    // As a function without types may be.
    policy: (() => undefined) as unknown as () => ReturnType<typeof allow>,
    steps: () => [score({ customer: 'c' })],
    task: { policy_checks: ['rate'] },
  })
  const [rule] = ofKind(definitions, 'policy')
  const question = { action: 'quiet', command: {}, task: {}, context: {} }
  assert.equal(rule?.rule.decide(question)?.decision, 'deny')
  assert.deepEqual(ofKind(definitions, 'task')[0]?.spec.policy_checks, ['permission', 'data_safety', 'quiet', 'rate'])
})

test('an undefined field keeps the default, and the undo of a lookup leaves the decision to a person', () => {
  const terms = { timeout_ms: undefined } as unknown as { timeout_ms: number }
  const looked = defineEffect('q.do', {
    ...terms,
    input: z.object({}),
    class: 'queryable',
    do: () => Promise.resolve({}),
    find: () => Promise.resolve({ found: false as const }),
    undo: () => Promise.resolve({}),
  })
  assert.deepEqual([looked.source.timeout_ms, looked.source.undo?.class], [30_000, 'opaque'])
})

test('the answers of a policy', () => {
  assert.deepEqual(
    [allow(), deny('No.'), ask(2, 'boss', 'Why.'), delay(5, 'Later.'), needInput('f', 'Missing.')].map(
      ({ decision }) => decision,
    ),
    ['allow', 'deny', 'require_approval', 'delay', 'require_more_input'],
  )
  assert.deepEqual(ask(2, 'boss').required_approvals, [{ role: 'boss', count: 2 }])
})

test('operations of connectors are typed steps, and bring their connector', () => {
  const bank = httpConnector({
    name: 'bank',
    description: 'A bank.',
    base_url: 'https://bank.example',
    operations: [
      {
        name: 'send',
        description: 'Sends money.',
        method: 'POST',
        path: '/payments',
        input: z.object({ to: z.string(), amount: z.number() }),
        output: z.object({ payment_id: z.string() }),
        side_effect_class: 'keyed',
        risk_level: 'high',
        compensation: { operation: 'revert', input: { id: '{output.payment_id}' } },
      },
      {
        name: 'revert',
        description: 'Reverts it.',
        method: 'POST',
        path: '/reverts',
        input: z.object({ id: z.string() }),
        output: z.object({}),
        side_effect_class: 'keyed',
      },
    ],
  })
  const fraud = mcpConnector({
    name: 'fraud',
    description: 'Checks fraud.',
    server: { stdio: { command: '/usr/bin/fraud' } },
    tools: {
      check: { side_effect_class: 'none', input: z.object({ to: z.string() }), output: z.object({ id: z.string() }) },
      ping: {},
    },
  })
  const send = defineCommand('send', {
    input: z.object({ to: z.string(), amount: z.number() }),
    policy: () => ask(1, 'cashier'),
    approval: { required: true },
    steps: ({ to, amount }) => [fraud.check({ to }), fraud.ping({}), bank.send({ to, amount })],
  })
  // @ts-expect-error an operation that the connector does not have
  assert.equal(bank.steal, undefined)
  // @ts-expect-error a field that the tool does not take
  assert.equal(fraud.check({ to: 'a', from: 'b' }).effect_type, 'connector.fraud.check')
  const type = typeOf(send.definitions)
  assert.deepEqual(type.side_effects, ['connector.fraud.check', 'connector.fraud.ping', 'connector.bank.send'])
  assert.deepEqual([type.risk_level, type.compensation.supported], ['high', true])
  assert.deepEqual(ofKind(send.definitions, 'task')[0]?.spec.connector_requirements, ['fraud', 'bank'])
  assert.deepEqual(expandCatalog([send, refund, send]).connectors, [fraud, bank])
  assert.ok(!Object.keys(bank).includes('send'))
})

test('a result goes only to a later step, and never into a text', () => {
  const planOf = (steps: () => readonly ReturnType<typeof score | typeof pay>[]) => {
    const { definitions } = defineCommand('order', {
      input: z.object({}),
      policy: () => allow(),
      uses: [score],
      steps,
    })
    return ofKind(definitions, 'function')[0]?.plan(
      {},
      { command_id: '', workspace_id: '', requested_by: '', trace_id: '', facts: {} },
    )
  }
  const charge = from(score, 'charge_id')
  for (const wrong of [Number.NaN, 1n, () => 1, [undefined]])
    assert.throws(() => planOf(() => [score({ customer: wrong as unknown as string })]), /not JSON/)
  assert.throws(
    () => planOf(() => [pay({ order_id: 'o', amount: 1, charge }), score({ customer: 'c' })]),
    /not an earlier one/,
  )
  assert.throws(
    () => planOf(() => [score({ customer: 'c' }), pay({ order_id: `order ${charge}`, amount: 1 })]),
    /as a whole value/,
  )
  assert.deepEqual(
    planOf(() => [score({ customer: 'c' }), pay({ order_id: 'o', amount: 1, charge })])?.map(({ inputs }) => inputs),
    [[], [{ path: ['charge'], step: 0, field: 'charge_id' }]],
  )
})
