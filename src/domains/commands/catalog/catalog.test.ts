/** The catalog: defaults, the mapping to primitives over all flags, and every error that stops a start. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { z } from 'zod'
import { errorClasses } from '#kernel/error-classes'
import { defineRetryPolicy } from '#kernel/retry-policy'
import { chooseQueue, queueNames } from './primitives.ts'
import { shippedPolicies } from './shipped-policies.ts'
import {
  defineCommandType,
  defineConnectorOperation,
  defineFunction,
  definePolicy,
  defineSchedule,
  defineTask,
  type Definition,
  registerRetry,
} from './definitions.ts'
import { defineEffect } from './effect-definition.ts'
import { findMappingGaps, mappingQuestions } from './task-questions.ts'
import { anyHost, openCatalog } from './open-catalog.ts'
import { mapTaskToPrimitives, primitiveFamilies, primitives, executionPrimitives } from './primitives.ts'

const specOf = (spec: Parameters<typeof defineTask>[0]) => defineTask(spec).spec
const named = { name: 'T', description: 'd', command_type: 't', function_name: 'f' }

test('[PRM-18] the defaults of a task spec', () => {
  assert.deepEqual(
    { ...specOf(named) },
    {
      ...named,
      ingress_types: [],
      required_inputs: [],
      sync_allowed: false,
      async_required: false,
      approval_required: false,
      memory_write_possible: false,
      artifact_output_possible: false,
      notification_required: false,
      policy_checks: [],
      connector_requirements: [],
      risk_level: 'low',
      max_attempts: 3,
      metadata: {},
    },
  )
})

test('[PRM-01] there are exactly ten families of primitives, by name', () => {
  assert.deepEqual(primitiveFamilies, [
    'ingress',
    'intent',
    'policy_and_planning',
    'execution',
    'coordination',
    'state_lifecycle',
    'human_judgment',
    'knowledge_and_output',
    'connectors',
    'observability_and_governance',
  ])
})

test('[PRM-16] [PLN-09] the mapping over all 128 combinations of flags', () => {
  for (let bits = 0; bits < 128; bits++) {
    const [approval, mustAsync, maySync, connector, artifact, memory, notify] = Array.from(
      { length: 7 },
      (_, at) => (bits & (1 << at)) !== 0,
    )
    const task = specOf({
      ...named,
      approval_required: approval ?? false,
      async_required: mustAsync ?? false,
      sync_allowed: maySync ?? false,
      connector_requirements: connector ? ['c'] : [],
      artifact_output_possible: artifact ?? false,
      memory_write_possible: memory ?? false,
      notification_required: notify ?? false,
    })
    // The expected list, written from the text of the requirement.
    const expected = ['ingress', 'command', 'context', 'policy', 'plan']
    if (approval) expected.push('human_approval')
    if (mustAsync || !maySync) expected.push('queue', 'async_task')
    else expected.push('sync_function')
    if (connector) expected.push('connector_call')
    if (artifact) expected.push('artifact_write')
    if (memory) expected.push('memory_write')
    if (notify) expected.push('notification')
    expected.push('state_transition', 'audit')
    assert.deepEqual(mapTaskToPrimitives(task), expected)
    assert.ok(expected.every((name) => (primitives as readonly string[]).includes(name)))
  }
})

test('[PLN-11] [PLN-12] [SUP-09] the prefix of the effect type selects the queue', () => {
  const of = (effect_type: string) => chooseQueue({ effect_type })
  assert.deepEqual(
    ['connector.x.y', 'agent.run', 'agent.spawn.x', 'notification.app', 'artifact.write', 'connector'].map(of),
    ['connector_calls', 'agent_runs', 'swarm_children', 'notifications', 'concord_default', 'concord_default'],
  )
  assert.equal(new Set(queueNames).size, 8)
})

const contract = {
  payload: z.strictObject({ id: z.string() }),
  error_classes: errorClasses,
  cancellable_by: ['requester'] as const,
  audit: ['command_created'],
}
const book = defineEffect({
  effect_type: 'connector.hotel.book',
  class: 'keyed',
  requires_compensation: true,
  do: () => Promise.resolve({}),
  undo: { name: 'hotel.cancel', do: () => Promise.resolve({}) },
})
const whole: readonly Definition[] = [
  ...shippedPolicies,
  book,
  defineConnectorOperation({
    connector: 'hotel',
    operation: 'book',
    side_effect: true,
    idempotency_required: true,
    idempotency_key_template: 'book:{id}',
  }),
  registerRetry(defineRetryPolicy({ operation: 'hotel.book', retryable: ['timeout'] })),
  defineFunction({
    name: 'f',
    plan: ({ id }) => [{ effect_type: 'connector.hotel.book', payload: { id: id ?? null } }],
  }),
  defineCommandType({ name: 't', description: 'Books.', side_effects: ['connector.hotel.book'], ...contract }),
  defineTask({
    ...named,
    ingress_types: ['user_request'],
    async_required: true,
    connector_requirements: ['hotel'],
    policy_checks: ['permission'],
  }),
  defineSchedule({ name: 's', command_type: 't', cron: '0 3 * * *', queue: 'scheduled_maintenance' }),
]

const rulesOf = (definitions: readonly Definition[], host = anyHost) => {
  const opened = openCatalog(definitions, host)
  const findings = opened.ok ? [] : (opened.facts?.['findings'] as { rule: string }[] | undefined)
  return (findings ?? []).map(({ rule }) => rule)
}
const without = (test: (definition: Definition) => boolean) => whole.filter((definition) => !test(definition))
const replaced = (kind: Definition['kind'], by: Definition) => [
  ...without((definition) => definition.kind === kind),
  by,
]

describe('openCatalog', () => {
  test('[PRM-24] a complete catalog opens', () => assert.deepEqual(rulesOf(whole), []))

  const cases: [title: string, definitions: readonly Definition[], rule: string][] = [
    [
      '[POL-12] an unknown policy name',
      replaced(
        'task',
        defineTask({
          ...named,
          ingress_types: ['user_request'],
          async_required: true,
          connector_requirements: ['hotel'],
          policy_checks: ['permisson'],
        }),
      ),
      'unknown_policy',
    ],
    [
      '[ERR-13] a connector operation without a retry policy',
      without(({ kind }) => kind === 'retry_policy'),
      'missing_retry_policy',
    ],
    [
      '[EFF-13] a required compensation that is missing',
      replaced(
        'effect',
        defineEffect({
          effect_type: 'connector.hotel.book',
          class: 'keyed',
          requires_compensation: true,
          do: () => Promise.resolve({}),
        }),
      ),
      'missing_compensation',
    ],
    [
      '[D12] an undo on failure without an undo',
      replaced(
        'command_type',
        defineCommandType({ name: 't', description: 'Books.', side_effects: [], on_failure: 'undo', ...contract }),
      ),
      'nothing_to_undo',
    ],
    [
      '[EFF-16] a false inverse',
      replaced(
        'effect',
        defineEffect({
          effect_type: 'connector.hotel.book',
          class: 'keyed',
          inverses: { 'hotel.book': 'hotel.refund' },
          do: () => Promise.resolve({}),
          undo: { name: 'hotel.cancel', do: () => Promise.resolve({}) },
        }),
      ),
      'false_inverse',
    ],
    [
      '[PLN-13] a queue that is not registered',
      replaced('schedule', defineSchedule({ name: 's', command_type: 't', cron: '0 3 * * *', queue: 'nobody' })),
      'unknown_queue',
    ],
    [
      'a cron that never fires',
      replaced(
        'schedule',
        defineSchedule({ name: 's', command_type: 't', cron: '0 0 30 2 *', queue: 'notifications' }),
      ),
      'cron_never',
    ],
    [
      '[PRM-09] a contract without one of its seven parts',
      replaced(
        'command_type',
        defineCommandType({ name: 't', description: '', side_effects: ['connector.hotel.book'], ...contract }),
      ),
      'contract_gap',
    ],
    ['an effect without an operation', without(({ kind }) => kind === 'connector_operation'), 'unknown_operation'],
    [
      'a queryable effect that cannot be looked up',
      replaced(
        'effect',
        defineEffect({ effect_type: 'connector.hotel.book', class: 'queryable', do: () => Promise.resolve({}) }),
      ),
      'missing_lookup',
    ],
    [
      'two definitions with one name',
      [...whole, definePolicy({ name: 'permission', category: 'permission', actions: '*', decide: () => undefined })],
      'duplicate_name',
    ],
    ['an undefined function', without(({ kind }) => kind === 'function'), 'unknown_function'],
  ]
  for (const [title, definitions, rule] of cases)
    test(title, () => assert.ok(rulesOf(definitions).includes(rule), rulesOf(definitions).join()))

  for (const [name, more, rule, said] of [
    ['BookHotel', {}, 'type_name', /^"BookHotel" is not a name in lower_snake_case/],
    ['book-hotel', {}, 'type_name', /such as book_hotel$/],
    ['x'.repeat(65), {}, 'type_name', /at most 64 characters/],
    // Its approvals are called `<name>_approval`.
    ['x'.repeat(60), {}, 'approval_terms', /" has a name that is not lower_snake_case with at most 64/],
    ['t', { approval_type: 'Big Question' }, 'approval_terms', /^"t" has an approval whose type "Big Question" has/],
    ['t', { expires_in_minutes: 0 }, 'approval_terms', /expires after 1 to 525600 minutes/],
  ] as const)
    test(`a command type ${name.slice(0, 12)} with ${JSON.stringify(more)} is refused at start: ${rule}`, () => {
      const type = defineCommandType({ ...contract, name, description: 'd', side_effects: [], approval: more })
      const others = name === 't' ? without(({ kind }) => kind === 'command_type') : whole
      const opened = openCatalog([...others, type], anyHost)
      assert.ok(!opened.ok && opened.code === 'commands.catalog.invalid')
      const findings = opened.facts?.['findings'] as readonly { rule: string; subject: string; message: string }[]
      assert.deepEqual(
        findings.map((each) => [each.rule, each.subject]),
        [[rule, name]],
      )
      assert.match(findings[0]?.message ?? '', said)
    })

  test('[EFF-17] [EFF-27] [RUN-04] a catalog that needs a capability the runtime lacks does not open', () => {
    const payment = defineEffect({
      effect_type: 'connector.hotel.book',
      class: 'keyed',
      requires_capabilities: ['saga_compensation_native'],
      do: () => Promise.resolve({}),
    })
    const host = {
      ...anyHost,
      capabilities: anyHost.capabilities.filter((name) => name !== 'saga_compensation_native'),
    }
    assert.deepEqual(rulesOf(replaced('effect', payment)), [])
    assert.deepEqual(rulesOf(replaced('effect', payment), host), ['missing_capability'])
  })

  test('[EFF-18] all errors are reported at once', () => {
    const broken = [
      ...without(({ kind }) => kind === 'retry_policy' || kind === 'function'),
      defineSchedule({ name: 'x', command_type: 'nobody', cron: '* *', queue: 'nobody' }),
    ]
    assert.deepEqual(rulesOf(broken).sort(), [
      'cron_fields',
      'missing_retry_policy',
      'unknown_command_type',
      'unknown_function',
      'unknown_queue',
    ])
  })
})

test('[PRM-23] each unanswered question of the twelve is named', () => {
  const questions = Object.keys(mappingQuestions)
  assert.equal(questions.length, 12)
  const type = defineCommandType({
    name: 't',
    description: 'd',
    side_effects: ['connector.hotel.book', 'artifact.write', 'memory.write', 'notification.app'],
    ...contract,
    cancellable_by: [],
    audit: [],
  })
  const task = specOf({ ...named, risk_level: 'high', metadata: { lifecycle: ['created', 'running'] } })
  const gaps = findMappingGaps(task, type).map(({ question }) => question)
  assert.deepEqual(
    questions.filter((question) => !gaps.includes(question)),
    ['command'],
  )
  assert.deepEqual(findMappingGaps(task, undefined).filter(({ question }) => question === 'command').length, 1)
  const complete = specOf({
    ...named,
    ingress_types: ['user_request'],
    async_required: true,
    policy_checks: ['permission'],
    connector_requirements: ['hotel'],
    artifact_output_possible: true,
    memory_write_possible: true,
    notification_required: true,
  })
  assert.deepEqual(findMappingGaps(complete, { ...type, cancellable_by: ['admin'], audit: ['x'] }), [])
})

/** Each effect with its undo, as the requirements list them. */
const pairs = [
  ['draft.create', 'draft.delete'],
  ['artifact.publish', 'artifact.unpublish'],
  ['notification.mail', 'notification.correction'],
  ['ticket.open', 'ticket.close'],
  ['access.grant', 'access.revoke'],
] as const
const swarmPairs = [
  ['artifact.draft', 'artifact.mark_cancelled'],
  ['job.start', 'job.cancel'],
  ['notification.team', 'notification.team_correction'],
  ['staging.create', 'staging.drop'],
  ['approval.ask', 'approval.expire'],
  ['memory.write', 'memory.supersede'],
  ['pull_request.open', 'pull_request.close'],
] as const

for (const [rows, list] of [
  ['[EFF-28]', pairs],
  ['[EFF-29]', swarmPairs],
] as const) {
  test(`${rows} the reference pairs are valid, each the inverse of the other; an effect without its undo is refused`, () => {
    const does = () => Promise.resolve({})
    const whole_ = list.map(([effect_type, name]) =>
      defineEffect({ effect_type, class: 'keyed', requires_compensation: true, do: does, undo: { name, do: does } }),
    )
    assert.deepEqual(rulesOf(whole_), [])
    for (const [at, { produces, inverses, undo }] of whole_.entries()) {
      assert.deepEqual([produces, undo?.produces, undo?.counter_effects], [[list[at]?.[0]], [list[at]?.[1]], true])
      assert.deepEqual(inverses, { [list[at]?.[0] ?? '']: list[at]?.[1] })
    }
    for (const [effect_type] of list)
      assert.ok(
        rulesOf([defineEffect({ effect_type, class: 'keyed', requires_compensation: true, do: does })]).includes(
          'missing_compensation',
        ),
      )
  })
}

test('there are six kinds of execution, and the catalog knows which effects change external systems', () => {
  assert.deepEqual(executionPrimitives, [
    'sync_function',
    'async_task',
    'connector_call',
    'agent_run',
    'external_job',
    'notification',
  ])
  const reads = defineEffect({ effect_type: 'x.read', class: 'read', do: () => Promise.resolve({}) })
  const writes = defineEffect({ effect_type: 'x.write', class: 'opaque', do: () => Promise.resolve({}) })
  assert.deepEqual([reads.produces, writes.produces], [[], ['x.write']])
})
