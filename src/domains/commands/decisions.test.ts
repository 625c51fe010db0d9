/** The pure decisions of this room, each over its whole table. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { attemptsAllowed } from '#kernel/retry'
import { compilePolicy, defineRetryPolicy, registerRetryPolicies } from '#kernel/retry-policy'
import { accepted } from '#test/tenant'
import { decideRetryRun } from './change-command.ts'
import fc from 'fast-check'
import { z } from 'zod'
import { errorClasses } from '#kernel/error-classes'
import { statesOf } from '#kernel/machine'
import { type CommandState, commandMachine } from '#kernel/machines/command'
import { evaluatePolicy } from '#kernel/policy/evaluate'
import { compileRules, type PolicyInput } from '#kernel/policy/policy'
import { defineCommandType } from './catalog/definitions.ts'
import { effectClasses } from './catalog/effect-definition.ts'
import type { Catalog } from './catalog/open-catalog.ts'
import type { CommandWithEffects, StoredCommand, StoredEffect } from './command-table.ts'
import { secretSchemes } from '#kernel/secrets/reference'
import { checkSecrets, dataClasses, decideDataSafety, highestClass, redactPayload } from '#kernel/data-class'
import { decideCancel } from './cancel-command.ts'
import { decideAfterFailure, decideInDoubt } from './outcome.ts'
import { judgeDependencies } from './advance.ts'
import { nextMoves } from './progress.ts'
import { planUndo } from './undo-plan.ts'
import { shippedPolicies } from './catalog/shipped-policies.ts'
import { validatePayload } from './tasks.ts'

const plain = { effect_type: 'x', read_back: null, compensates_effect_id: null, declared_compensation: null }
// Only the fields that these decisions read.
const ENDED = ['succeeded', 'failed', 'cancelled', 'expired', 'compensated']
const aCase = (
  status: CommandState,
  effects: readonly Partial<StoredEffect>[] = [],
  more: Partial<StoredCommand> = {},
): CommandWithEffects => ({
  command: {
    status,
    task_name: 'Work',
    command_type: 'work',
    cancellation_requested: false,
    cancellation_mode: 'graceful',
    plan: null,
    error_class: null,
    attempt: 1,
    idempotency_key: null,
    contract_key: null,
    completed_at: ENDED.includes(status) ? new Date(0) : null,
    ...more,
  } as StoredCommand,
  effects: effects.map((effect) => ({ ...plain, ...effect }) as StoredEffect),
})

const noCatalog = {
  tasks: new Map(),
  taskOfType: new Map(),
  effects: new Map(),
  undos: new Map(),
} as unknown as Catalog

test('[CAN-07] [CAN-08] where a cancel leads, for every state, with and without effects done', () => {
  const straight = ['created', 'validated', 'waiting_for_input', 'waiting_for_approval', 'approved', 'failed']
  for (const state of statesOf(commandMachine)) {
    const wayOf = ({ command, effects }: CommandWithEffects) =>
      decideCancel(command, planUndo(effects, noCatalog, new Date()))
    const clean = wayOf(aCase(state))
    const done = wayOf(aCase(state, [{ status: 'succeeded' }]))
    const show = (course: typeof clean) => (course.t === 'move' ? course.to : course.t)
    if (straight.includes(state)) assert.deepEqual([show(clean), show(done)], ['cancelled', 'cancelled'])
    else if (state === 'queued') assert.deepEqual([show(clean), show(done)], ['cancelled', 'flag'])
    else if (state === 'blocked') assert.deepEqual([show(clean), show(done)], ['cancelled', 'cancelling'])
    else if (state === 'running') assert.deepEqual([show(clean), show(done)], ['cancelling', 'cancelling'])
    else assert.deepEqual([show(clean), show(done)], ['nothing', 'nothing'])
  }
})

test('[EFF-06] [ERR-03] what follows from a failure, by class of connector: opaque is never repeated after doubt', () => {
  const settings = {
    limit: { attempts: 3 },
    backoff: { delay: { kind: 'none' } },
    retryable: ['timeout', 'rate_limited'],
  } as const
  const random = () => 0
  for (const effectClass of effectClasses) {
    for (const errorClass of errorClasses) {
      for (const attempt of [1, 2, 3]) {
        const isRepeated = (errorClass === 'timeout' || errorClass === 'rate_limited') && attempt < 3
        const no = decideAfterFailure(
          effectClass,
          settings,
          { errorClass, message: '', happened: 'no' },
          { attempt, random },
        )
        assert.equal(no.t, isRepeated ? 'retry' : 'fail')
        const unknown = decideAfterFailure(
          effectClass,
          settings,
          { errorClass, message: '', happened: 'unknown' },
          { attempt, random },
        )
        const expected = {
          read: isRepeated ? 'retry' : 'fail',
          keyed: isRepeated ? 'retry' : 'ask_person',
          queryable: 'look_up',
          opaque: 'ask_person',
        }
        assert.equal(unknown.t, expected[effectClass])
      }
    }
  }
  assert.deepEqual(
    effectClasses.map((each) => decideInDoubt(each, 1, 3)),
    ['repeat', 'repeat', 'look_up', 'ask_person'],
  )
  assert.deepEqual(
    effectClasses.map((each) => decideInDoubt(each, 3, 3)),
    ['fail', 'ask_person', 'look_up', 'ask_person'],
  )
})

test('[DEP-08] [DEP-02] parents: all there, still to come, or never; one that cancels goes before one that fails', () => {
  const parent = (
    status: CommandState,
    required_status: CommandState = 'succeeded',
    propagate_cancellation = true,
  ) => ({ parent_command_id: status, status, required_status, propagate_cancellation })
  assert.equal(judgeDependencies([]).t, 'satisfied')
  assert.equal(judgeDependencies([parent('succeeded'), parent('succeeded')]).t, 'satisfied')
  assert.equal(judgeDependencies([parent('succeeded'), parent('running')]).t, 'waiting')
  for (const status of ['failed', 'cancelled', 'expired', 'compensated'] as const)
    assert.equal(judgeDependencies([parent(status)]).t, 'unreachable')
  const both = judgeDependencies([parent('failed', 'succeeded', false), parent('cancelled')])
  assert.ok(both.t === 'unreachable' && both.parent.status === 'cancelled')
  assert.equal(judgeDependencies([parent('failed', 'failed')]).t, 'satisfied')
})

test('[SEC-03] [SEC-04] [SEC-06] secrets only as references, hidden classes replaced, lists looked into', () => {
  const classes = { token: 'secret', 'cards.number': 'payment', mail: 'pii' } as const
  const payload = { token: 'vault://a/b', mail: 'x', cards: [{ number: '1' }, { number: '2' }], plain: 1 }
  assert.ok(checkSecrets(payload, classes).ok)
  const raw = checkSecrets({ ...payload, token: 'sk_live_1' }, classes)
  assert.ok(!raw.ok)
  assert.equal(JSON.stringify(raw).includes('sk_live_1'), false)
  assert.deepEqual(redactPayload(payload, classes, 'pii'), {
    token: '[secret]',
    mail: 'x',
    cards: [{ number: '[payment]' }, { number: '[payment]' }],
    plain: 1,
  })
  // What nobody named is internal; only what is named public is public, and nothing at all is no secret.
  assert.equal(highestClass({ plain: 1 }, classes), 'internal')
  assert.equal(highestClass({ plain: 1 }, { plain: 'public' }), 'public')
  assert.equal(highestClass({ plain: 1, more: 2 }, { plain: 'public' }), 'internal')
  assert.equal(highestClass({ plain: null }, {}), 'public')
  assert.equal(highestClass({ cards: [{ number: '1' }] }, classes), 'payment')
  assert.equal(highestClass({ cards: [{ number: '1' }] }, { cards: 'public' }), 'public')
  assert.equal(highestClass({ mail: 'x' }, classes), 'pii')
  assert.deepEqual(
    dataClasses.map((each) => decideDataSafety(each, true)),
    ['allow', 'require_approval', 'require_approval', 'deny', 'deny', 'deny'],
  )
  assert.deepEqual(
    dataClasses.map((each) => decideDataSafety(each, false)),
    ['allow', 'allow', 'allow', 'allow', 'allow', 'deny'],
  )
})

const textOf = (alphabet: string, minLength: number, maxLength: number) =>
  fc.string({ unit: fc.constantFrom(...Array.from(alphabet)), minLength, maxLength })
const lower = 'abcdefghijklmnopqrstuvwxyz'
/** Without `name:password@`, which is refused as a credential. */
const place = textOf(`${lower}ABCXYZ0123456789_./:@-`, 1, 400).filter((text) => !/:.*@/.test(text))
const scheme = fc.constantFrom(...secretSchemes)
const otherScheme = textOf(lower, 2, 12).filter((name) => !secretSchemes.some((known) => known === name))
const passes = (token: string) => checkSecrets({ token }, { token: 'secret' }).ok

test('[SEC-06] a reference passes as a secret, and whatever is one character away from one does not', () => {
  fc.assert(
    fc.property(scheme, place, (name, where) => {
      assert.equal(passes(`${name}://${where}`), true)
    }),
  )
  fc.assert(
    fc.property(otherScheme, place, (name, where) => {
      assert.equal(passes(`${name}://${where}`), false)
    }),
  )
  const foreign = fc.constantFrom(' ', '\n', '\t', '\0', '#', '?', '%', '=', '&', '$', '"', 'é', '\u200b', '漢')
  fc.assert(
    fc.property(scheme, place, foreign, fc.nat(), (name, where, odd, at) => {
      const spot = at % (where.length + 1)
      for (const text of [
        `${name}://${where.slice(0, spot)}${odd}${where.slice(spot)}`,
        `${odd}${name}://${where}`,
        `${name.charAt(0).toUpperCase()}${name.slice(1)}://${where}`,
        `1${name}://${where}`,
        `${name.charAt(0)}://${where}`,
        `${name}${'x'.repeat(32)}://${where}`,
        `${name}://`,
        `${name}//${where.replaceAll(':', '')}`,
        `${name}://${where}${'x'.repeat(401 - where.length)}`,
        where.replaceAll(':', ''),
      ])
        assert.equal(passes(text), false, JSON.stringify(text))
    }),
  )
})

test('[SEC-06] no text of chance passes as a secret', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary' }).filter((text) => !text.includes('://')),
      (text) => assert.equal(passes(text), false),
    ),
  )
})

test('[CMD-12] absent fields are asked for, wrong ones are malformed, unknown ones too, whichever come first', () => {
  const contract = {
    description: 'd',
    side_effects: [],
    error_classes: errorClasses,
    cancellable_by: ['admin'] as const,
    audit: ['x'],
  }
  const type = defineCommandType({
    name: 't',
    payload: z.strictObject({ a: z.string(), b: z.number(), c: z.string().default('x') }),
    ...contract,
  })
  const judge = (payload: Record<string, string | number | null>, required: string[] = []) =>
    validatePayload(type, { required_inputs: required }, payload)
  assert.deepEqual(judge({ a: 'x', b: 1 }), { t: 'fits', payload: { a: 'x', b: 1, c: 'x' } })
  assert.deepEqual(judge({ b: 1 }), { t: 'missing', fields: ['a'] })
  assert.deepEqual(judge({ a: 'x', b: 1, c: 'y' }, ['d']), { t: 'missing', fields: ['d'] })
  assert.equal(judge({ a: 1, b: 1 }).t, 'malformed')
  assert.equal(judge({ a: 'x', b: 1, z: 1 }).t, 'malformed')
  assert.equal(judge({ b: 'no' }).t, 'malformed')
})

const rules = new Map(shippedPolicies.map(({ rule }) => [rule.name, rule]))
const ask = (
  names: readonly string[],
  more: { payload?: object; metadata?: object; task?: object; data_class?: string; facts?: object },
) => {
  const policy = compileRules(
    '1',
    names.map((name) => rules.get(name) ?? assert.fail(name)),
  )
  assert.ok(policy.ok)
  const input: PolicyInput = {
    action: 'a',
    command: { payload: more.payload ?? {}, data_class: more.data_class ?? 'public' },
    task: { risk_level: 'low', metadata: {}, ...more.task },
    context: { metadata: { role: 'writer', org_roles: [], ...more.metadata }, facts: more.facts ?? {} },
  }
  return evaluatePolicy(policy.value, input)
}

test('[POL-11] every named check exists and answers', () => {
  for (const name of [
    'permission',
    'cost',
    'data_access',
    'connector_scope',
    'payment_token_required',
    'cancellation_policy_disclosed',
    'approval_required_for_booking',
    'external_sharing',
  ]) {
    assert.notEqual(ask([name], {}).trace[0]?.answer, 'no_opinion', name)
  }
})

test('[POL-07] [SEC-09] [EXM-08] what the shipped rules say', () => {
  const said: [readonly string[], Parameters<typeof ask>[1], string][] = [
    [['permission'], { metadata: { role: 'reader' } }, 'deny'],
    [['permission'], {}, 'allow'],
    [['external_sharing'], { payload: { destination: 'finance@example.com' } }, 'require_approval'],
    [['external_sharing'], { payload: { destination: 'external:x' } }, 'require_approval'],
    [['external_sharing'], { payload: { destination: 'internal' } }, 'allow'],
    [['external_sharing'], {}, 'allow'],
    [['data_safety'], { payload: { destination: 'a@b.c' }, data_class: 'pii' }, 'deny'],
    [['data_safety'], { payload: { destination: 'a@b.c' }, data_class: 'internal' }, 'require_approval'],
    [['data_safety'], { data_class: 'pii' }, 'allow'],
    [['risk'], { task: { risk_level: 'high' } }, 'require_approval'],
    [['cost'], { payload: { estimated_cost_units: 101 } }, 'require_approval'],
    [['cost'], { payload: { estimated_cost_units: -1 } }, 'deny'],
    [['memory_consent'], { payload: { memory_consent: true } }, 'require_approval'],
    [['memory_consent'], { facts: { memory_consent: true } }, 'allow'],
    [['rate'], { facts: { commands_last_hour: 1_000 } }, 'delay'],
    [['data_access'], { task: { metadata: { data_roles: ['finance'] } } }, 'deny'],
    [
      ['data_access'],
      { task: { metadata: { data_roles: ['finance'] } }, metadata: { org_roles: ['finance'] } },
      'allow',
    ],
    [['connector_scope'], { facts: { connector_scopes: [] }, task: { connector_requirements: ['mail'] } }, 'deny'],
    [
      ['connector_scope'],
      { facts: { connector_scopes: ['mail'] }, task: { connector_requirements: ['mail'] } },
      'allow',
    ],
    // Nobody told: nothing is granted.
    [['connector_scope'], { task: { connector_requirements: ['mail'] } }, 'deny'],
    [['connector_scope'], { task: { connector_requirements: [] } }, 'allow'],
    [['payment_token_required'], {}, 'require_more_input'],
    [['cancellation_policy_disclosed'], {}, 'require_more_input'],
    [['approval_required_for_booking'], { payload: { user_explicitly_approved: true } }, 'require_approval'],
  ]
  for (const [names, more, decision] of said)
    assert.equal(ask(names, more).decision, decision, `${names.join()} ${JSON.stringify(more)}`)
  const approversOf = (payload: object, metadata: object = {}) =>
    ask(['approval_required_for_booking'], { payload, task: { metadata } }).required_approvals.length
  for (const [payload, metadata, approvers] of [
    [{ total_price: 500, currency: 'USD' }, {}, 1],
    [{ total_price: '500.00', currency: 'USD' }, {}, 1],
    [{ total_price: 501, currency: 'USD' }, {}, 2],
    // 500 of something else is not 500 USD; a price that cannot be read is not below anything.
    [{ total_price: 500, currency: 'EUR' }, {}, 2],
    [{ total_price: 1 }, {}, 2],
    [{ currency: 'USD' }, {}, 2],
    [{ total_price: '', currency: 'USD' }, {}, 2],
    [{ total_price: 'cheap', currency: 'USD' }, {}, 2],
    [{ total_price: 90, currency: 'EUR' }, { second_approver_above: 100, second_approver_currency: 'EUR' }, 1],
    [{ total_price: 101, currency: 'EUR' }, { second_approver_above: 100, second_approver_currency: 'EUR' }, 2],
  ] as const)
    assert.equal(approversOf(payload, metadata), approvers, JSON.stringify([payload, metadata]))
})

test('[M9] every state but success says what can happen next', () => {
  for (const state of statesOf(commandMachine)) {
    assert.equal(nextMoves(aCase(state), noCatalog, new Date()).length > 0, state !== 'succeeded', state)
  }
})

test('[ERR-14] the task bounds the runs of a command, the operation the attempts of a step', () => {
  const failed = (attempt: number) => {
    const found = aCase('failed')
    return {
      ...found,
      command: { ...found.command, attempt, plan: {} as never, error_class: 'timeout' } as typeof found.command,
    }
  }
  // One operation may be tried seven times; the task allows two runs all the same, and the other way round.
  const policy = defineRetryPolicy({ operation: 'o', retryable: ['timeout'], max_attempts: 7 })
  const compiled = compilePolicy('o', accepted(registerRetryPolicies([policy])))
  assert.equal(compiled.ok && attemptsAllowed(compiled.value.limit), 7)
  assert.deepEqual(accepted(decideRetryRun(failed(1), 2)), 2)
  const exhausted = decideRetryRun(failed(2), 2)
  assert.equal(exhausted.ok ? '' : exhausted.code, 'commands.retry.exhausted')
  assert.deepEqual(accepted(decideRetryRun(failed(7), 9)), 8)
})
