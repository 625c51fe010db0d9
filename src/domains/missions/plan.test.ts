import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { z } from 'zod'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { missionTaskTypes } from '#kernel/machines/mission'
import { aPlan, planTask } from '#test/missions'
import { autonomyLevels, missionConfig, chooseModel, readMissionConfig, warnOfSettings } from './config.ts'
import { checkPlan, dependencyTypes, type PlanTask, readPlan, strategies } from './plan.ts'
import { fillReferences } from './references.ts'
import { decideAutonomy } from './start-plan.ts'

const known = { tasks: new Set(['Step', 'Generate Report', 'Draft']), agents: new Set(['Draft']) }
const findings = (...tasks: readonly PlanTask[]) =>
  checkPlan(aPlan(...tasks), known).map(({ code, path }) => `${code} ${path}`)
const read = (plan: object) => readPlan(plan as JsonValue, known)

describe('plans of missions', () => {
  test('[MIS-025] [MIS-030] [MIS-033] the closed lists', () => {
    assert.deepEqual(missionTaskTypes, [
      'research',
      'analysis',
      'writing',
      'coding',
      'verification',
      'review',
      'synthesis',
      'other',
    ])
    assert.deepEqual(dependencyTypes, ['data', 'ordering'])
    assert.deepEqual(strategies, ['sequential', 'parallel', 'mixed'])
    assert.deepEqual(autonomyLevels, ['approve', 'autonomous', 'full_auto'])
    const { ok, ...config } = readMissionConfig({})
    assert.ok(ok && 'value' in config && config.value.autonomy === 'approve')
  })

  test('[MIS-061] a plan without its parts is refused with each of them', () => {
    const refused = read({ version: 0, strategy: 'fast' })
    assert.ok(!refused.ok && refused.facts)
    const shown = (refused.facts['findings'] as { path: string }[]).map(({ path }) => path)
    assert.deepEqual(shown, ['plan.version', 'plan.strategy', 'plan.estimated_cost', 'plan.tasks'])
    assert.match(refused.reason, / There are 3 more findings\.$/)
    const two = read({ ...aPlan(planTask('a')), version: 0, estimated_cost: 'NaN' })
    assert.match(two.ok ? '' : two.reason, / There is one more finding\.$/)
    assert.ok(read(aPlan(planTask('a'))).ok)
    assert.ok(!read({ ...aPlan(), estimated_cost: 'NaN' }).ok)
    assert.ok(!read({ ...aPlan(), budget: '1' }).ok)
  })

  test('[MIS-066] documents of earlier versions load: fields that came later have defaults', () => {
    // As the first version wrote them. Never change these texts: stored missions have them.
    const plan = `{"version":1,"strategy":"mixed","estimated_cost":"4.50","tasks":[
      {"temp_id":"a","title":"A","task_type":"other","depends_on":[],"trigger_rule":"all_success","run":{"task":"Step","payload":{}}},
      {"temp_id":"b","title":"B","task_type":"writing","depends_on":["a",{"task":"a2","type":"ordering"}],"trigger_rule":"all_done","description":null,
       "success_criteria":null,"tools_requested":null,"suggested_agent":null,"suggested_model":null,"max_retries":1,"run":{"task":"Step","payload":{"from":{"$from":"a"}}}},
      {"temp_id":"a2","title":"A2","task_type":"other","run":{"task":"Step"}}]}`
    const loaded = read(JSON.parse(plan) as object)
    assert.ok(loaded.ok, JSON.stringify(loaded))
    const [a, b, a2] = loaded.value.tasks
    assert.deepEqual([a?.run, a?.max_cost, a?.verify], [{ task: 'Step', payload: {} }, undefined, undefined])
    assert.deepEqual(
      [b?.max_retries, b?.trigger_rule, a2?.depends_on, a2?.trigger_rule, a2?.run.payload],
      [1, 'all_done', [], 'all_success', {}],
    )
    const config = readMissionConfig(
      JSON.parse(
        '{"autonomy":"full_auto","auto_approve_threshold":"0","retry":{"max_retries":3,"base_seconds":10,"cap_seconds":300}}',
      ) as JsonValue,
    )
    assert.ok(config.ok)
    const { retry, timeouts, verification, budget } = config.value
    assert.deepEqual(
      [retry.max_retries, timeouts.task_stall_seconds, verification.pass_threshold, retry.max_continuations, budget],
      [3, 300, 0.8, 10, undefined],
    )
  })

  test('[MIS-063] every doubled and unknown id is named at once, with the nearest name', () => {
    const broken = aPlan(
      planTask('notes', { depends_on: ['nots', 'notes'] }),
      planTask('send', { depends_on: ['notes', 'notes'] }),
      planTask('send', { run: { task: 'Stepp', payload: {} } }),
    )
    assert.deepEqual(
      checkPlan(broken, known).map(({ code, path }) => `${code} ${path}`),
      [
        'unknown_id plan.tasks[0].depends_on',
        'cycle plan.tasks[0].depends_on',
        'doubled plan.tasks[1].depends_on',
        'doubled plan.tasks[2].temp_id',
        'unknown_task plan.tasks[2].run.task',
      ],
    )
    const messages = checkPlan(broken, known).map(({ message }) => message)
    assert.match(messages[0] ?? '', /no task "nots".*Did you mean "notes"/)
    assert.match(messages[4] ?? '', /Did you mean "Step"/)
  })

  test('a task names one runner: a task of the catalog, one that an agent does, or a queue of workers', () => {
    const run = (given: object) => findings(planTask('a', { run: { payload: {}, ...given } }))
    assert.deepEqual([run({ worker: 'any-queue' }), run({ agent: 'Draft' }), run({ task: 'Draft' })], [[], [], []])
    assert.deepEqual(run({ agent: 'Step' }), ['unknown_agent plan.tasks[0].run.agent'])
    for (const given of [{}, { task: 'Step', worker: 'q' }, { worker: 'Not A Queue' }])
      assert.ok(!read(aPlan(planTask('a', { run: { payload: {}, ...given } }))).ok, JSON.stringify(given))
  })

  test('[MIS-221] a cycle is refused with its path', () => {
    const cycle = [
      planTask('A', { depends_on: ['C'] }),
      planTask('B', { depends_on: ['A'] }),
      planTask('C', { depends_on: ['B'] }),
    ]
    const [found] = checkPlan(aPlan(...cycle), known)
    assert.match(found?.message ?? '', /A → B → C → A/)
  })

  test('[MIS-221] a random graph is refused exactly if a cycle was planted, and the path of the refusal is one', () => {
    const graph = fc.record({
      edges: fc.array(fc.array(fc.nat(9), { maxLength: 3 }), { minLength: 2, maxLength: 10 }),
      isPlanted: fc.boolean(),
      from: fc.nat(9),
      length: fc.integer({ min: 2, max: 10 }),
    })
    fc.assert(
      fc.property(graph, ({ edges, isPlanted, from, length }) => {
        // Edges lead backwards, so there is no cycle but the planted one.
        const before = edges.map((to, at) => new Set(to.filter((each) => each < at)))
        const size = Math.min(length, edges.length)
        const start = Math.min(from, edges.length - size)
        for (let at = start; isPlanted && at < start + size; at++)
          before[at]?.add(at + 1 < start + size ? at + 1 : start)
        const tasks = before.map((to, at) => planTask(`n${at}`, { depends_on: [...to].map((each) => `n${each}`) }))
        const refused = read(aPlan(...tasks))
        assert.equal(refused.ok, !isPlanted)
        if (refused.ok) return
        const path = /n\d+(?: → n\d+)+/.exec(refused.reason)?.[0].split(' → ') ?? []
        assert.ok(path.length >= 3 && path[0] === path.at(-1), refused.reason)
        const needs = (task: string, other: string) => before[Number(task.slice(1))]?.has(Number(other.slice(1)))
        const steps = path.slice(1).map((each, at) => [path[at] ?? '', each] as const)
        const isWay = (test_: (one: string, other: string) => unknown) => steps.every(([a, b]) => test_(a, b))
        assert.ok(isWay(needs) || isWay((a, b) => needs(b, a)), refused.reason)
      }),
    )
  })

  test('a cycle is found together with the other findings', () => {
    const found = findings(
      planTask('a', { depends_on: ['b'] }),
      planTask('b', { depends_on: ['c', 'nowhere'] }),
      planTask('c', { depends_on: ['a'], run: { task: 'Stepp', payload: {} } }),
    )
    assert.deepEqual(found, [
      'unknown_id plan.tasks[1].depends_on',
      'unknown_task plan.tasks[2].run.task',
      'cycle plan.tasks',
    ])
    assert.deepEqual(findings(), ['size plan.tasks'])
  })

  test('a payload is checked against its task, without what a reference decides', () => {
    const pair = z.union([z.object({ n: z.number() }), z.string()])
    const contract = z.strictObject({ month: z.string(), size: z.number().optional(), pair: pair.optional() })
    const found = (payload: JsonObject) =>
      checkPlan(
        aPlan(planTask('a'), planTask('b', { depends_on: ['a'], run: { task: 'Generate Report', payload } })),
        known,
        (task) => (task === 'Generate Report' ? contract : undefined),
      ).map(({ code, path }) => `${code} ${path}`)
    const at = 'payload plan.tasks[1].run.payload'
    const reference = { $from: 'a', path: '/x' }
    assert.deepEqual(found({ month: 5, size: 'big' }), [`${at}.month`, `${at}.size`])
    assert.deepEqual(found({ month: reference, size: 'big' }), [`${at}.size`])
    assert.deepEqual(found({ month: reference, mnth: 'May' }), [at])
    // A person can supply it.
    assert.deepEqual(found({}), [])
    assert.deepEqual(found({ month: 'May', pair: { n: reference } }), [])
    assert.deepEqual(found({ month: 'May', pair: { n: 'one' } }), [`${at}.pair`])
    assert.deepEqual(found(reference), [])
  })

  test('a reference needs a data edge, and 10,001 tasks are too many', () => {
    const from = (name: string) => ({ task: 'Step', payload: { list: [{ name: { $from: name } }] } })
    assert.deepEqual(findings(planTask('a'), planTask('b', { depends_on: ['a'], run: from('a') })), [])
    const ordering = { task: 'a', type: 'ordering' as const }
    assert.deepEqual(findings(planTask('a'), planTask('b', { depends_on: [ordering], run: from('a') })), [
      'no_data_edge plan.tasks[1].run.payload.list[0].name',
    ])
    const many = Array.from({ length: 10_001 }, (_, index) => planTask(`t${index}`))
    assert.deepEqual(findings(...many), ['size plan.tasks'])
  })

  test('a reference that would send wrong data is a finding', () => {
    const after_ = (payload: JsonObject, more: Partial<PlanTask> = {}) =>
      findings(planTask('a'), planTask('b', { depends_on: ['a'], run: { task: 'Step', payload }, ...more }))
    assert.deepEqual(after_({ n: { $from: 'a', path: '/x' } }), [])
    for (const wrong of [
      { $from: 'a', path: 'artifact_id' },
      { $from: 'a', path: 7 },
      { $from: 'a', pth: '/x' },
      { $from: 1 },
    ])
      assert.deepEqual(after_({ n: [wrong] }), ['reference plan.tasks[1].run.payload.n[0]'], JSON.stringify(wrong))
    assert.deepEqual(after_({ $from: 'a', more: 1 }), ['reference plan.tasks[1].run.payload'])
    assert.deepEqual(after_({ n: { $from: 'a' } }, { trigger_rule: 'always' }), [
      'reference plan.tasks[1].run.payload.n',
    ])
  })

  test('a reference is filled by its path, and a path that leads nowhere is refused', () => {
    const results = new Map<string, JsonValue>([['a', { list: [{ 'x/y': 7 }] }]])
    const filled = fillReferences({ n: { $from: 'a', path: '/list/0/x~1y' }, all: { $from: 'a' } }, results)
    assert.deepEqual(filled, { ok: true, value: { n: 7, all: { list: [{ 'x/y': 7 }] } } })
    for (const path of ['/list/1', '/constructor', '/list/0/x', '/list/length/1'])
      assert.ok(!fillReferences({ n: { $from: 'a', path } }, results).ok, path)
  })

  test('[MIS-068] an unknown setting is kept, and one that would be ignored is refused', () => {
    const kept = readMissionConfig({ colour: 'red', retry: { max_retries: 1 } })
    assert.ok(kept.ok)
    assert.deepEqual(
      [kept.value['colour'], kept.value.retry],
      [
        'red',
        { max_retries: 1, base_seconds: 10, cap_seconds: 300, max_continuations: 10, continuation_delay_seconds: 1 },
      ],
    )
    assert.deepEqual(warnOfSettings({ autonmy: 'full_auto', autonomy: 'approve', colour: 'red' }), [
      'There is no setting "autonmy". Did you mean "autonomy"? It has no effect.',
      'There is no setting "colour". It has no effect.',
    ])
    const refused = readMissionConfig({ timeouts: { verify: 10 } })
    assert.ok(!refused.ok)
    assert.equal(refused.path, 'config.timeouts')
    assert.ok(!readMissionConfig({ autonomy: 'wild' }).ok)
  })

  test('[MIS-067] without settings a mission has these', () => {
    assert.deepEqual(missionConfig.parse({}), {
      autonomy: 'approve',
      auto_approve_threshold: '0',
      approval: { count: 1 },
      retry: {
        max_retries: 3,
        max_continuations: 10,
        base_seconds: 10,
        cap_seconds: 300,
        continuation_delay_seconds: 1,
      },
      timeouts: { task_stall_seconds: 300, task_assign_seconds: 120, verify_seconds: 180, run_resolve_seconds: 60 },
      verification: { pass_threshold: 0.8, human_threshold: 0.5 },
      model_preferences: {},
      auto_accept: false,
      notifications: [],
      hooks: {},
    })
    const limits = { hard_limit: '10.00', soft_limit: '8.00', per_task_limit: '1.00' }
    const read = missionConfig.parse({ budget: limits, priority: 'low' })
    assert.deepEqual([read.budget, read.priority], [limits, 'low'])
  })

  test('[MIS-083] a model is that of the task, of its type, of the mission, or else of the agent; another may follow a refused output', () => {
    const models = { default: 'small', coding: 'coder', after_refusal: 'large' }
    const { model_preferences } = missionConfig.parse({ model_preferences: models })
    const task = { model_override: null, task_type: 'writing', failure_type: null } as const
    const cases = [
      [{ ...task, model_override: 'own', task_type: 'coding' }, 'own'],
      [{ ...task, task_type: 'coding' }, 'coder'],
      [{ ...task, failure_type: 'infrastructure' }, 'small'],
      [{ ...task, failure_type: 'quality', model_override: 'own' }, 'large'],
    ] as const
    for (const [each, model] of cases) assert.equal(chooseModel(each, { model_preferences }), model)
    assert.equal(chooseModel(task, { model_preferences: {} }), null)
    assert.ok(!readMissionConfig({ model_preferences: { cooking: 'x' } }).ok)
  })

  test('[MIS-069] three levels of autonomy, below, at and above the threshold', () => {
    const terms = {
      auto_approve_threshold: '5.00',
      approver_role: null,
      approvals_required: 1,
      expires_in_minutes: null,
    }
    const decided = autonomyLevels.map((autonomy) =>
      ['4.99', '5.00', '5.01'].map(
        (estimated_cost) => decideAutonomy({ ...terms, autonomy, estimated_cost }, 'user:ada').decision,
      ),
    )
    const [ask, allow] = ['require_approval', 'allow']
    assert.deepEqual(decided, [
      [ask, ask, ask],
      [allow, allow, ask],
      [allow, allow, allow],
    ])
    const asked = (approver_role: string | null, requester: string) =>
      decideAutonomy({ ...terms, approver_role, autonomy: 'approve', estimated_cost: '1' }, requester)
        .required_approvals
    assert.deepEqual(
      [asked(null, 'user:ada'), asked('release-manager', 'user:ada'), asked(null, 'schedule:nightly')],
      ['user:ada', 'release-manager', 'operator'].map((role) => [{ role, count: 1 }]),
    )
  })
})
