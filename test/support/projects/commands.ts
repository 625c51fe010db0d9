/** A project that runs in the process of the test: tasks that do what their payload says, tools for agents, and ticks for schedules. */
import { z } from 'zod'
import {
  defineCommandType,
  defineConnectorOperation,
  type Definition,
  defineEffect,
  defineFunction,
  definePolicy,
  defineProject,
  defineSchedule,
  defineTask,
  EffectPending,
  registerRetry,
  type ScheduleSpec,
} from '../../../src/index.ts'
import { type EffectCall, shippedPolicies, type UndoCall } from '../../../src/domains/commands/index.ts'
import { retryableErrorClasses } from '../../../src/kernel/error-classes.ts'
import type { PolicyDecision } from '../../../src/kernel/policy/policy.ts'
import { defineRetryPolicy } from '../../../src/kernel/retry-policy.ts'
import type { FakeProvider } from '../fake-providers.ts'
import type { TestWorld } from '../tenant.ts'
import { contract, defineWork } from './define-work.ts'

const BOOK = 'connector.hotel.book_a'
const MAIL = 'connector.mail.send'

const workPayload = z.strictObject({
  subject: z.string(),
  steps: z.array(z.string()).default([]),
  decide: z.string().default('allow'),
  destination: z.string().optional(),
  api_key: z.string().optional(),
  note: z.string().optional(),
})

export type ChildStarter = (call: EffectCall) => Promise<string>

function effectsOf(provider: FakeProvider, children: () => ChildStarter): Definition[] {
  const undo = (name: string, isKeyed: boolean) => ({
    name,
    do: async (call: UndoCall) => {
      const result = await provider.call(name, call, isKeyed)
      call.emit(name)
      return result
    },
  })
  const operation = (connector: string, name: string, more: object = {}) => [
    defineConnectorOperation({ connector, operation: name, side_effect: true, ...more }),
    registerRetry(
      defineRetryPolicy({
        operation: `${connector}.${name}`,
        retryable: retryableErrorClasses,
        ...('idempotency_required' in more ? { requires_idempotency_key: true } : {}),
      }),
    ),
  ]
  return [
    ...['a', 'b', 'c', 'd'].flatMap((letter) => [
      defineEffect({
        effect_type: `connector.hotel.book_${letter}`,
        class: 'keyed',
        requires_compensation: true,
        do: (call) => provider.call(`book_${letter}`, call, true),
        undo: undo(`hotel.cancel_${letter}`, true),
      }),
      ...operation('hotel', `book_${letter}`, { idempotency_required: true }),
    ]),
    defineEffect({
      effect_type: 'connector.ticket.open',
      class: 'queryable',
      do: (call) => provider.call('open', call, false),
      find: async ({ idempotencyKey }) =>
        provider.has(idempotencyKey) ? { found: true, result: { looked_up: true } } : { found: false },
    }),
    ...operation('ticket', 'open'),
    defineEffect({
      effect_type: MAIL,
      class: 'opaque',
      // A test lets a second driver take over during this call, which needs 50 ms on a busy machine.
      timeout_ms: 1_000,
      do: (call) => provider.call('send', call, false),
    }),
    ...operation('mail', 'send'),
    defineEffect({
      effect_type: 'work.echo',
      class: 'read',
      bounded: true,
      do: ({ payload }) => Promise.resolve({ echo: payload['subject'] ?? null }),
    }),
    defineEffect({
      effect_type: 'work.drifting',
      class: 'keyed',
      do: (call) => provider.call('drifting', call, true),
      undo: {
        name: 'work.undrift',
        do: async (call) => (call.emit('work.something_else'), provider.call('undrift', call, true)),
      },
    }),
    defineEffect({
      effect_type: 'command.run',
      class: 'keyed',
      do: async (call) => {
        throw new EffectPending(await children()(call))
      },
    }),
  ]
}

type Scripted =
  | 'deny'
  | 'require_more_input'
  | 'require_approval'
  | 'escalate'
  | 'delay'
  | 'route'
  | 'route_sync'
  | 'allow'

/** Decides what the payload asks for. */
const scripted = definePolicy({
  name: 'scripted',
  category: 'environment',
  actions: '*',
  decide({ command }) {
    const decision = (command['payload'] as { decide?: string }).decide as Scripted
    switch (decision) {
      case 'require_more_input':
        return (command['payload'] as { note?: string }).note === undefined
          ? { decision, reasons: ['A note is needed.'], metadata: { missing_fields: ['note'] } }
          : { decision: 'allow' }
      case 'require_approval':
        return { decision, reasons: ['Somebody must agree.'], required_approvals: ['owner'] }
      case 'escalate':
        return { decision, reasons: ['Somebody higher up must agree.'], required_approvals: ['chief'] }
      case 'delay':
        return { decision, reasons: ['Not now.'], metadata: { delay_ms: 60_000 } }
      case 'route':
        return { decision, metadata: { queue: 'notifications' } }
      case 'route_sync':
        return { decision: 'route', metadata: { execution_mode: 'sync' } }
      case 'deny':
        return { decision, reasons: ['Not here.'] }
      default:
        return { decision: 'allow' satisfies PolicyDecision }
    }
  },
})

const connectorEffects = ['a', 'b', 'c', 'd'].map((letter) => `connector.hotel.book_${letter}`)
const anyEffect = [...connectorEffects, 'connector.ticket.open', MAIL, 'work.echo', 'work.drifting', 'command.run']

export function testDefinitions(provider: FakeProvider, children: () => ChildStarter): readonly Definition[] {
  const anyWork = {
    payload: workPayload,
    plan: ({ steps, subject }) =>
      (steps as readonly string[]).map((effect_type) => ({ effect_type, payload: { subject: subject ?? null } })),
    effects: anyEffect,
  } satisfies Partial<Parameters<typeof defineWork>[0]>
  const anyTask = {
    connector_requirements: ['hotel', 'ticket', 'mail'],
    policy_checks: ['permission', 'scripted'],
  }
  return [
    ...shippedPolicies,
    scripted,
    ...effectsOf(provider, children),
    ...defineWork({
      ...anyWork,
      name: 'Work',
      type: { fields: { api_key: 'secret', note: 'pii' } },
      task: {
        ...anyTask,
        ingress_types: ['user_request', 'webhook', 'system_event', 'scheduled_trigger'],
        required_inputs: ['subject'],
      },
    }),
    ...defineWork({
      ...anyWork,
      name: 'Booking',
      type: {
        cancellation_mode: 'compensate_then_stop',
        idempotency: { required: true, key_template: 'booking:{subject}' },
      },
      task: { ...anyTask, ingress_types: ['user_request', 'webhook', 'scheduled_trigger'] },
    }),
    ...defineWork({ ...anyWork, name: 'Fragile', type: { on_failure: 'undo' }, task: anyTask }),
    ...defineWork({
      name: 'Echo',
      payload: workPayload,
      plan: ({ subject }) => [{ effect_type: 'work.echo', payload: { subject: subject ?? null } }],
      result: ([first]) => first,
      effects: ['work.echo'],
      task: {
        required_inputs: ['subject'],
        async_required: false,
        sync_allowed: true,
        policy_checks: ['permission', 'scripted'],
      },
    }),
  ]
}

/** Tools for agents, one for each rule that can stop them. They call the provider of `testDefinitions`. */
/** A task that awaits the run of its command; the test inserts the run. */
export function agenticTask({ db }: Pick<TestWorld, 'db'>): readonly Definition[] {
  const effect_type = 'agent.run_of_test'
  return [
    defineEffect({
      effect_type,
      class: 'keyed',
      do: ({ commandId }) => Promise.reject(EffectPending.ofProcess('agent_run', commandId)),
      find: async ({ commandId }) => {
        const [ended] = await db.query(
          'select 1 from concord.agent_runs where command_id = $1 and completed_at is not null',
          [commandId],
        )
        return ended ? { found: true, result: {} } : { found: false }
      },
    }),
    ...defineWork({
      name: 'Find Out',
      payload: z.strictObject({}),
      plan: () => [{ effect_type, payload: {} }],
      effects: [effect_type],
    }),
  ]
}

export function agentTools(): readonly Definition[] {
  const subject = z.strictObject({ subject: z.string() })
  const look = { payload: subject, plan: () => [{ effect_type: 'work.look', payload: {} }], effects: ['work.look'] }
  const tool = (...policy_checks: string[]) => ({
    ingress_types: ['user_request', 'agent_action'] as const,
    connector_requirements: ['mail'],
    policy_checks,
    risk_level: 'medium' as const,
  })
  const note = (name: string, ...policies: string[]) =>
    defineWork({
      name,
      payload: z.strictObject({
        subject: z.string(),
        destination: z.string().optional(),
        customer: z.string().optional(),
        api_key: z.string().optional(),
      }),
      plan: ({ subject: about = null }) => [{ effect_type: MAIL, payload: { subject: about } }],
      effects: [MAIL],
      type: { fields: { customer: 'pii', api_key: 'secret' } },
      task: tool('permission', 'data_safety', ...policies),
    })
  return [
    definePolicy({
      name: 'deny_all',
      category: 'environment',
      actions: '*',
      decide: () => ({ decision: 'deny', reasons: ['Nothing is allowed here.'] }),
    }),
    ...note('Publish Note', 'external_sharing'),
    ...note('Forbidden Note', 'deny_all'),
    defineEffect({
      effect_type: 'work.look',
      class: 'read',
      bounded: true,
      do: () => Promise.resolve({ total: '17' }),
    }),
    ...defineWork({
      ...look,
      name: 'Read Books',
      task: {
        ingress_types: ['user_request', 'agent_action'],
        async_required: false,
        sync_allowed: true,
        policy_checks: ['permission', 'data_access'],
        metadata: { data_roles: ['finance'] },
      },
    }),
    ...defineWork({
      ...look,
      name: 'Sync Note',
      task: {
        ingress_types: ['user_request', 'agent_action'],
        async_required: false,
        sync_allowed: true,
        policy_checks: ['permission'],
      },
    }),
    // The requester may approve: a person confirms their own request.
    ...defineWork({
      ...look,
      name: 'Confirm Note',
      type: { approval: { required: true, approver: 'role:owner', self_decision_allowed: true } },
      task: tool('permission'),
    }),
    // Its function calls a connector that its contract does not name.
    ...defineWork({
      ...look,
      name: 'Sneak',
      plan: () => [{ effect_type: BOOK, payload: { subject: 's' } }],
      task: tool('permission'),
    }),
  ]
}

const tickType = { ...contract, side_effects: ['tick.do'] }

export const tickDefinitions: readonly Definition[] = [
  defineEffect({ effect_type: 'tick.do', class: 'keyed', do: ({ payload }) => Promise.resolve({ ticked: payload }) }),
  defineFunction({ name: 'tick', plan: (payload) => [{ effect_type: 'tick.do', payload }] }),
  defineCommandType({
    ...tickType,
    name: 'tick',
    description: 'Ticks.',
    payload: z.strictObject({ note: z.string().max(20).optional(), secret: z.string().optional() }),
    fields: { secret: 'secret' },
  }),
  defineCommandType({
    ...tickType,
    name: 'asked_tick',
    description: 'Ticks after an approval.',
    payload: z.strictObject({ note: z.string() }),
    approval: { required: true, approver: 'role:boss' },
  }),
  defineCommandType({
    ...tickType,
    name: 'unscheduled_tick',
    description: 'No schedule may submit it.',
    payload: z.strictObject({}),
  }),
  ...(
    [
      ['Tick', 'tick', 'scheduled_trigger'],
      ['Asked Tick', 'asked_tick', 'scheduled_trigger'],
      ['Unscheduled Tick', 'unscheduled_tick', 'user_request'],
    ] as const
  ).map(([name, command_type, ingress]) =>
    defineTask({
      name,
      description: `${name}.`,
      command_type,
      function_name: 'tick',
      ingress_types: [ingress],
      async_required: true,
      policy_checks: ['permission'],
    }),
  ),
]

export const everyMinute = {
  name: 'every minute',
  command_type: 'tick',
  cron: '* * * * *',
  queue: 'scheduled_maintenance',
} as const satisfies ScheduleSpec

/** What a server of a journey runs: ticks, and a refund that a person of finance must approve. */
export default defineProject({
  catalog: [
    ...tickDefinitions,
    defineSchedule({ ...everyMinute, misfire: 'all' }),
    definePolicy({
      name: 'finance_agrees',
      category: 'approval_requirement',
      actions: '*',
      decide: () => ({
        decision: 'require_approval',
        reasons: ['Money leaves the organisation.'],
        required_approvals: ['finance'],
      }),
    }),
    defineEffect({
      effect_type: 'refund.pay',
      class: 'keyed',
      do: ({ payload }) => Promise.resolve({ paid: payload['amount'] ?? null }),
    }),
    ...defineWork({
      name: 'Refund Order',
      payload: z.strictObject({ order: z.string(), amount: z.string() }),
      plan: ({ order = null, amount = null }) => [{ effect_type: 'refund.pay', payload: { order, amount } }],
      result: ([first]) => first,
      effects: ['refund.pay'],
      task: { required_inputs: ['order'], policy_checks: ['permission', 'finance_agrees'] },
    }),
  ],
})
