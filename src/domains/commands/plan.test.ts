/** Plans: the same input gives the same plan, with its gate, its order and its queue; what the contract does not name is refused. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeProvider } from '#test/fake-providers'
import { testDefinitions } from '#test/projects/commands'
import { accepted } from '#test/tenant'
import { defineTask, type EffectDraft } from './catalog/definitions.ts'
import { defineEffect } from './catalog/effect-definition.ts'
import { anyHost, openCatalog } from './catalog/open-catalog.ts'
import { parseKeyTemplate } from '#kernel/idempotency-key'
import { compileRules } from '#kernel/policy/policy'
import { evaluatePolicy } from '#kernel/policy/evaluate'
import { shippedPolicies } from './catalog/shipped-policies.ts'
import { createPlan, decideMode, type PlanInput, validatePlan } from './plan.ts'
import { checkKeyFields } from './step-inputs.ts'

const catalog = accepted(
  openCatalog(
    testDefinitions(new FakeProvider(), () => () => Promise.resolve('')),
    anyHost,
  ),
)
const taskNamed = (name: string) => catalog.tasks.get(name) ?? assert.fail(name)
const drafts: readonly EffectDraft[] = ['connector.hotel.book_a', 'connector.mail.send', 'work.echo'].map(
  (effect_type) => ({
    effect_type,
    payload: {},
  }),
)
const input = (more: Partial<PlanInput> = {}): PlanInput => ({
  planId: 'plan',
  commandId: 'command',
  requestedBy: 'user:1',
  task: taskNamed('Work'),
  policy: { decision: 'allow', metadata: {} },
  isApproved: false,
  drafts,
  effectIds: ['e1', 'e2', 'e3', 'e4'],
  catalog,
  ...more,
})

test('[PLN-01] [PLN-02] [PLN-05] steps with their primitives, in order, each after the one before it', () => {
  const { plan } = accepted(createPlan(input()))
  assert.deepEqual(Object.keys(plan).sort(), [
    'command_id',
    'execution_mode',
    'plan_id',
    'plan_schema_version',
    'primitives',
    'queue',
    'steps',
  ])
  assert.deepEqual(plan.primitives, [
    'ingress',
    'command',
    'context',
    'policy',
    'plan',
    'queue',
    'async_task',
    'connector_call',
    'state_transition',
    'audit',
  ])
  assert.deepEqual(
    plan.steps.map(({ step_id, primitive, depends_on }) => [step_id, primitive, depends_on]),
    [
      ['step_1', 'connector_call', []],
      ['step_2', 'connector_call', ['step_1']],
      ['step_3', 'async_task', ['step_2']],
    ],
  )
  assert.deepEqual([plan.execution_mode, plan.queue], ['async', 'connector_calls'])
  const gated = accepted(createPlan(input({ isApproved: true }))).plan
  assert.deepEqual(
    gated.steps.slice(0, 2).map(({ step_id, primitive, depends_on }) => [step_id, primitive, depends_on]),
    [
      ['approval', 'human_approval', []],
      ['step_1', 'connector_call', ['approval']],
    ],
  )
  assert.equal(gated.execution_mode, 'approval_gated_async')
})

test('[PLN-03] a hundred times the same input, a hundred times the same plan', () => {
  const plans = Array.from({ length: 100 }, () => JSON.stringify(createPlan(input())))
  assert.equal(new Set(plans).size, 1)
})

test('[PLN-05] a plan with a step that the contract does not name, an unknown step, a circle or an unknown queue is refused', () => {
  const { plan } = accepted(createPlan(input()))
  const [first, ...rest] = plan.steps
  assert.ok(first)
  const task = taskNamed('Work')
  const wrong = [
    { ...plan, steps: [{ ...first, metadata: { effect_type: 'connector.bank.transfer' } }, ...rest] },
    { ...plan, steps: [{ ...first, primitive: 'memory_write' as const }, ...rest] },
    { ...plan, steps: [{ ...first, depends_on: ['step_3'] }, ...rest] },
    { ...plan, steps: [{ ...first, depends_on: ['nobody'] }, ...rest] },
    { ...plan, queue: 'nobody' },
  ]
  assert.ok(validatePlan(plan, task, catalog).ok)
  for (const each of wrong) {
    const judged = validatePlan(each, task, catalog)
    assert.equal(judged.ok ? 'ok' : judged.code, 'commands.plan.invalid')
  }
})

test('[PLN-06] [PLN-07] [PLN-10] sync only for one bounded, repeatable step of a low-risk task that nobody gates', () => {
  const echo = taskNamed('Echo')
  const one: readonly EffectDraft[] = [{ effect_type: 'work.echo', payload: {} }]
  const [slow]: readonly EffectDraft[] = [{ effect_type: 'connector.hotel.book_a', payload: {} }]
  assert.ok(slow)
  assert.equal(decideMode(echo, false, one, catalog), 'sync')
  assert.equal(decideMode(echo, true, one, catalog), 'approval_gated_async')
  assert.equal(decideMode(echo, false, [...one, ...one], catalog), 'async')
  assert.equal(decideMode(echo, false, [slow], catalog), 'async')
  assert.equal(decideMode({ ...echo, spec: { ...echo.spec, risk_level: 'medium' } }, false, one, catalog), 'async')
  assert.equal(decideMode({ ...echo, spec: { ...echo.spec, async_required: true } }, false, one, catalog), 'async')
  assert.equal(decideMode({ ...echo, spec: { ...echo.spec, sync_allowed: false } }, false, one, catalog), 'async')
  assert.equal(
    decideMode({ ...echo, type: { ...echo.type, execution_mode: 'agentic' } }, false, one, catalog),
    'agentic',
  )
})

test('[POL-03] a rule that routes changes the queue and the mode of the plan', () => {
  const metadata = { routing: { queue: 'notifications', execution_mode: 'async' } }
  const { plan } = accepted(createPlan(input({ policy: { decision: 'route', metadata } })))
  assert.deepEqual([plan.queue, plan.execution_mode], ['notifications', 'async'])
})

test('[PLN-08] the reference decisions: what runs in the request, what behind it, and what behind a person', () => {
  const effect = (effect_type: string, effectClass: 'read' | 'keyed' | 'opaque', bounded: boolean) =>
    [
      effect_type,
      {
        definition: defineEffect({ effect_type, class: effectClass, bounded, do: () => Promise.resolve({}) }),
        operation: undefined,
        keyTemplate: undefined,
      },
    ] as const
  const effects = new Map([
    effect('input.validate', 'read', true),
    effect('sql.preview', 'read', true),
    effect('sql.query', 'read', false),
    effect('artifact.report', 'keyed', true),
    effect('connector.vendor.sync', 'keyed', false),
    effect('notification.app', 'keyed', true),
    effect('notification.mail', 'opaque', false),
    effect('memory.write', 'keyed', true),
    effect('tool.lookup', 'read', true),
    effect('tool.crawl', 'read', false),
  ])
  const { type } = taskNamed('Echo')
  const mode = (effect_type: string, more: Partial<Parameters<typeof defineTask>[0]> = {}, isApproved = false) => {
    const { spec } = defineTask({
      name: 't',
      description: '',
      command_type: 't',
      function_name: 'f',
      sync_allowed: true,
      ...more,
    })
    return decideMode({ spec, type }, isApproved, [{ effect_type, payload: {} }], { effects })
  }
  assert.equal(mode('input.validate'), 'sync')
  assert.equal(mode('sql.preview'), 'sync')
  assert.equal(mode('sql.query'), 'async', 'a preview that is not small')
  assert.equal(mode('artifact.report'), 'async')
  assert.equal(mode('connector.vendor.sync'), 'async')
  assert.equal(mode('notification.app'), 'sync', 'by provider: this one is quick and knows our key')
  assert.equal(mode('notification.mail'), 'async', 'by provider: this one is neither')
  assert.equal(mode('memory.write'), 'sync')
  assert.equal(mode('memory.write', { risk_level: 'medium' }), 'async')
  assert.equal(mode('memory.write', { approval_required: true }), 'approval_gated_async', 'a sensitive one')
  assert.equal(mode('tool.lookup'), 'sync')
  assert.equal(mode('tool.crawl'), 'async')
  assert.equal(mode('tool.lookup', {}, true), 'approval_gated_async')
})

test('[DET-05] planning and judging change nothing they are given', () => {
  const frozen = <T>(value: T): T => {
    if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
    Object.freeze(value)
    for (const part of Object.values(value)) frozen(part)
    return value
  }
  const given = input({ drafts: frozen(structuredClone(drafts)), policy: frozen({ decision: 'allow', metadata: {} }) })
  Object.freeze(given)
  const made = accepted(createPlan(given))
  const [first, second] = [frozen(made), frozen(accepted(createPlan(given)))]
  assert.deepEqual(first, second)
  assert.ok(validatePlan(first.plan, given.task, catalog).ok)
})

test('[SEC-02] who, what, which connector, which data, which side effects, whether approved: six denials', () => {
  const { policy } = taskNamed('Work')
  const rules = (...names: string[]) => {
    const chosen = shippedPolicies.filter(({ rule }) => names.includes(rule.name)).map(({ rule }) => rule)
    return accepted(compileRules('six', chosen))
  }
  const question = {
    action: 'work',
    command: { payload: {}, data_class: 'internal' },
    task: { risk_level: 'low', metadata: {}, connector_requirements: [] },
    context: { metadata: { role: 'writer', org_roles: [] }, facts: {} },
  }
  const said = (chosen: typeof policy, more: object) => evaluatePolicy(chosen, { ...question, ...more }).decision
  assert.equal(said(rules('permission'), { context: { metadata: { role: 'reader' }, facts: {} } }), 'deny', 'who')
  assert.equal(said(accepted(compileRules('none', [])), {}), 'deny', 'what: no rule speaks for it')
  const mail = { risk_level: 'low', metadata: {}, connector_requirements: ['mail'] }
  const scopes = { metadata: { role: 'writer' }, facts: { connector_scopes: ['hotel'] } }
  assert.equal(said(rules('connector_scope'), { task: mail, context: scopes }), 'deny', 'which connector')
  const books = { risk_level: 'low', metadata: { data_roles: ['finance'] } }
  assert.equal(said(rules('data_access'), { task: books }), 'deny', 'which data')
  const other = [{ effect_type: 'work.other', payload: {} }]
  const planned = createPlan(input({ drafts: other }))
  assert.equal(planned.ok ? '' : planned.code, 'commands.plan.invalid', 'which side effects')
  const high = { risk_level: 'high', metadata: {} }
  assert.equal(said(rules('risk'), { task: high }), 'require_approval', 'whether approved')
})

test('a key that an earlier step would have to return is refused', () => {
  const template = accepted(parseKeyTemplate('refund:{charge.id}:{order}'))
  const from = (...path: readonly string[]) => checkKeyFields('pay', template, [{ path, step: 0, field: 'id' }])
  for (const path of [['charge'], ['charge', 'id'], ['order']]) assert.equal(from(...path).ok, false, path.join('.'))
  for (const path of [['amount'], ['charge', 'name'], ['customer', 'order']])
    assert.ok(from(...path).ok, path.join('.'))
  assert.ok(checkKeyFields('pay', undefined, [{ path: ['charge'], step: 0, field: 'id' }]).ok)
})
