/** A catalog for tests: a provider with a ledger of its own, and tasks that do what their payload says. */
import { z } from 'zod'
import {
  defineCommandType,
  defineConnectorOperation,
  type Definition,
  defineEffect,
  defineFunction,
  definePolicy,
  defineTask,
  type EffectCall,
  EffectFailure,
  EffectPending,
  registerRetry,
  shippedPolicies,
  type UndoCall,
} from '../../src/domains/commands/index.ts'
import { errorClasses, retryableErrorClasses } from '../../src/kernel/error-classes.ts'
import type { PolicyDecision } from '../../src/kernel/policy/policy.ts'
import { defineRetryPolicy } from '../../src/kernel/retry-policy.ts'

/** What the provider does with the next calls, in order; then it does what it is asked. */
export type ProviderMode =
  | 'ok'
  | 'fail_before'
  | 'fail_after'
  | 'timeout_after'
  | 'refuse'
  | 'crash_before'
  | 'crash_after'
  | 'rate_limited'

export class ProcessDied extends Error {}

/** An outside system: it counts what it has really done, by key. */
export class FakeProvider {
  readonly applied = new Map<string, number>()
  readonly calls: string[] = []
  readonly modes: ProviderMode[] = []
  /** Names of what the provider does not do for now. */
  readonly failing = new Set<string>()
  /** Set by the modes that take the caller's process down: from then on it writes nothing. */
  isCallerDead = false
  /** Dedupes by key, as a `keyed` provider does. */
  apply(key: string, isKeyed: boolean): void {
    const before = this.applied.get(key) ?? 0
    if (before > 0 && isKeyed) return
    this.applied.set(key, before + 1)
  }

  async call(
    name: string,
    { idempotencyKey: key, signal }: Pick<EffectCall, 'idempotencyKey' | 'signal'>,
    isKeyed: boolean,
  ): Promise<unknown> {
    this.calls.push(`${name} ${key}`)
    const mode = this.modes.shift() ?? (this.failing.has(name) ? 'fail_before' : 'ok')
    switch (mode) {
      case 'ok':
        this.apply(key, isKeyed)
        return { done: name, key }
      case 'fail_before':
        throw new EffectFailure('transient_connector_error', 'connection refused', 'no')
      case 'fail_after':
        this.apply(key, isKeyed)
        throw new EffectFailure('transient_connector_error', 'connection reset', 'unknown')
      case 'timeout_after':
        this.apply(key, isKeyed)
        return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))))
      case 'refuse':
        throw new EffectFailure('validation_error', 'the provider says no')
      case 'rate_limited':
        throw new EffectFailure('rate_limited', 'slow down')
      case 'crash_before':
        this.isCallerDead = true
        throw new ProcessDied('died before the call')
      case 'crash_after':
        this.apply(key, isKeyed)
        this.isCallerDead = true
        throw new ProcessDied('died after the call')
    }
  }

  has(key: string): boolean {
    return (this.applied.get(key) ?? 0) > 0
  }
}

const workPayload = z.strictObject({
  subject: z.string(),
  steps: z.array(z.string()).default([]),
  decide: z.string().default('allow'),
  destination: z.string().optional(),
  api_key: z.string().optional(),
  note: z.string().optional(),
})

function effectsOf(provider: FakeProvider, children: () => ChildStarter): Definition[] {
  const undo = (name: string, isKeyed: boolean) => ({
    name,
    do: async (call: UndoCall) => {
      const result = await provider.call(name, call, isKeyed)
      call.emit(name)
      return result
    },
  })
  const book = (letter: string) =>
    defineEffect({
      effect_type: `connector.hotel.book_${letter}`,
      class: 'keyed',
      requires_compensation: true,
      do: (call) => provider.call(`book_${letter}`, call, true),
      undo: undo(`hotel.cancel_${letter}`, true),
    })
  return [
    ...['a', 'b', 'c', 'd'].flatMap((letter) => [
      book(letter),
      defineConnectorOperation({
        connector: 'hotel',
        operation: `book_${letter}`,
        side_effect: true,
        idempotency_required: true,
      }),
      registerRetry(
        defineRetryPolicy({
          operation: `hotel.book_${letter}`,
          retryable: retryableErrorClasses,
          requires_idempotency_key: true,
        }),
      ),
    ]),
    defineEffect({
      effect_type: 'connector.ticket.open',
      class: 'queryable',
      do: (call) => provider.call('open', call, false),
      find: async ({ idempotencyKey }) =>
        provider.has(idempotencyKey) ? { found: true, result: { looked_up: true } } : { found: false },
    }),
    defineConnectorOperation({ connector: 'ticket', operation: 'open', side_effect: true }),
    registerRetry(defineRetryPolicy({ operation: 'ticket.open', retryable: retryableErrorClasses })),
    defineEffect({
      effect_type: 'connector.mail.send',
      class: 'opaque',
      timeout_ms: 50,
      do: (call) => provider.call('send', call, false),
    }),
    defineConnectorOperation({ connector: 'mail', operation: 'send', side_effect: true }),
    registerRetry(defineRetryPolicy({ operation: 'mail.send', retryable: retryableErrorClasses })),
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

export type ChildStarter = (call: EffectCall) => Promise<string>
type Scripted =
  | 'deny'
  | 'require_more_input'
  | 'require_approval'
  | 'escalate'
  | 'delay'
  | 'route'
  | 'route_sync'
  | 'allow'

/** Rules that say what the payload tells them to, so that a test can choose its way. */
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

const contract = {
  payload: workPayload,
  error_classes: errorClasses,
  cancellable_by: ['requester', 'admin'] as const,
  audit: ['command_created', 'policy_evaluated'],
}
const connectorEffects = ['a', 'b', 'c', 'd'].map((letter) => `connector.hotel.book_${letter}`)
const anyEffect = [
  ...connectorEffects,
  'connector.ticket.open',
  'connector.mail.send',
  'work.echo',
  'work.drifting',
  'command.run',
]

export function testDefinitions(provider: FakeProvider, children: () => ChildStarter): readonly Definition[] {
  return [
    ...shippedPolicies,
    scripted,
    ...effectsOf(provider, children),
    defineFunction({
      name: 'work',
      plan: ({ steps, subject }) =>
        (steps as readonly string[]).map((effect_type) => ({ effect_type, payload: { subject: subject ?? null } })),
    }),
    defineFunction({
      name: 'echo',
      plan: ({ subject }) => [{ effect_type: 'work.echo', payload: { subject: subject ?? null } }],
      result: ([first]) => first,
    }),
    defineCommandType({
      name: 'work',
      description: 'Does what its payload says.',
      side_effects: anyEffect,
      fields: { api_key: 'secret', note: 'pii' },
      ...contract,
    }),
    defineCommandType({ name: 'echo', description: 'Says it again.', side_effects: ['work.echo'], ...contract }),
    defineCommandType({
      name: 'booking',
      description: 'Books and can be undone.',
      side_effects: anyEffect,
      cancellation_mode: 'compensate_then_stop',
      idempotency: { required: true, key_template: 'booking:{subject}' },
      ...contract,
    }),
    defineTask({
      name: 'Work',
      description: 'Any work.',
      command_type: 'work',
      function_name: 'work',
      ingress_types: ['user_request', 'webhook', 'system_event', 'scheduled_trigger'],
      required_inputs: ['subject'],
      async_required: true,
      connector_requirements: ['hotel', 'ticket', 'mail'],
      policy_checks: ['permission', 'scripted'],
    }),
    defineTask({
      name: 'Echo',
      description: 'Fast work.',
      command_type: 'echo',
      function_name: 'echo',
      ingress_types: ['user_request'],
      required_inputs: ['subject'],
      sync_allowed: true,
      policy_checks: ['permission', 'scripted'],
    }),
    defineTask({
      name: 'Booking',
      description: 'Work that is undone when it is cancelled.',
      command_type: 'booking',
      function_name: 'work',
      ingress_types: ['user_request'],
      async_required: true,
      connector_requirements: ['hotel', 'ticket', 'mail'],
      policy_checks: ['permission', 'scripted'],
    }),
  ]
}
