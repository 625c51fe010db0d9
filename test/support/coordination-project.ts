/** A project for tests of coordination: one task for each way in which work could happen too often or too much at once. */
import { z } from 'zod'
import {
  defineCommandType,
  defineConnectorOperation,
  defineEffect,
  defineFunction,
  defineProject,
  defineTask,
  type Definition,
  EffectFailure,
  httpConnector,
  registerRetry,
} from '../../src/index.ts'
import { errorClasses, retryableErrorClasses } from '../../src/kernel/error-classes.ts'
import { defineRetryPolicy } from '../../src/kernel/retry-policy.ts'

const outside = process.env['OUTSIDE_URL'] ?? 'http://127.0.0.1:1'
const workspaceId = process.env['SHOP_WORKSPACE'] ?? ''
export const shopSecret = Buffer.from('the secret of the shop')
export const ATTEMPTS_MAX = 3
export const RUNS_MAX = 2
export const CALLS_PER_MINUTE = 4
export const CALLS_AT_ONCE = 2

async function knock(door: string, key: string, signal: AbortSignal): Promise<unknown> {
  const query = new URLSearchParams({ key, by: String(process.pid) }).toString()
  const response = await fetch(`${outside}/${door}?${query}`, { method: 'POST', signal })
  if (response.status === 503) throw new EffectFailure('transient_connector_error', 'down', 'no')
  if (!response.ok) throw new EffectFailure('transient_connector_error', `${response.status}`, 'unknown')
  return response.json()
}

type Work = {
  readonly task: string
  readonly door: string
  readonly effect: string
  readonly class?: 'keyed' | 'opaque'
  readonly key?: string
}

/** `opaque`: whoever calls twice has done it twice, and nobody outside would stop it. */
const works: readonly Work[] = [
  { task: 'Ship', door: 'ship', effect: 'shop.ship', class: 'opaque' },
  { task: 'Publish', door: 'forgetful', effect: 'press.publish', key: 'publish:{subject}' },
  { task: 'Work', door: 'work', effect: 'work.do', class: 'opaque' },
  { task: 'Knock', door: 'down', effect: 'work.knock' },
  { task: 'Print', door: 'print', effect: 'connector.press.print' },
]

const shape = {
  error_classes: errorClasses,
  cancellable_by: ['requester', 'admin'],
  audit: ['command_created'],
} as const

function taskOf(task: string, effect: string, connector?: string): readonly Definition[] {
  const name = task.toLowerCase().replaceAll(' ', '_')
  return [
    defineFunction({ name, plan: ({ subject }) => [{ effect_type: effect, payload: { subject: subject ?? null } }] }),
    defineTask({
      name: task,
      description: `${task}.`,
      command_type: name,
      function_name: name,
      ingress_types: ['user_request', 'webhook'],
      required_inputs: ['subject'],
      async_required: true,
      policy_checks: ['permission'],
      connector_requirements: connector === undefined ? [] : [connector],
      max_attempts: RUNS_MAX,
    }),
  ]
}

function typeOf(task: string, effect: string, key?: string): Definition {
  return defineCommandType({
    ...shape,
    name: task.toLowerCase().replaceAll(' ', '_'),
    description: `${task}.`,
    payload: z.strictObject({ subject: z.string() }),
    side_effects: [effect],
    ...(key === undefined ? {} : { idempotency: { required: true, key_template: key } }),
  })
}

function define({ task, door, effect, class: effectClass = 'keyed', key }: Work): readonly Definition[] {
  const [connector, operation] = effect.startsWith('connector.') ? effect.split('.').slice(1) : []
  return [
    ...(connector !== undefined && operation !== undefined
      ? [defineConnectorOperation({ connector, operation, side_effect: true, idempotency_required: true })]
      : []),
    registerRetry(
      defineRetryPolicy({
        operation: effect.replace(/^connector\./, ''),
        retryable: retryableErrorClasses,
        max_attempts: ATTEMPTS_MAX,
        backoff_seconds: [0.05],
        requires_idempotency_key: true,
      }),
    ),
    defineEffect({
      effect_type: effect,
      class: effectClass,
      timeout_ms: 80_000,
      do: ({ idempotencyKey, signal }) => knock(door, idempotencyKey, signal),
    }),
    typeOf(task, effect, key),
    ...taskOf(task, effect, connector),
  ]
}

/** Doors of the gate, with limits of their own. */
const gated = { narrow: 'Ask Narrowly', slow: 'Ask Slowly' } as const

function connectorOf(name: keyof typeof gated) {
  return httpConnector({
    name,
    description: 'Has little room.',
    base_url: outside,
    reach: { allow_http: true, private_networks: ['127.0.0.1'] },
    rate_limits:
      name === 'narrow'
        ? { concurrent: CALLS_AT_ONCE, requests_per_minute: null }
        : { concurrent: null, requests_per_minute: CALLS_PER_MINUTE },
    operations: [
      {
        name: 'ask',
        description: 'Asks.',
        method: 'POST',
        path: `/${name}`,
        input: z.strictObject({ subject: z.string() }),
        output: z.looseObject({}),
        side_effect_class: 'none',
        timeout_ms: 80_000,
        attempts_max: 100,
        // Whoever is turned away for this minute comes back when it is over; the narrow one is free in a moment.
        backoff_seconds: name === 'narrow' ? [0.5] : [300],
      },
    ],
  })
}

export default defineProject({
  connectors: [connectorOf('narrow'), connectorOf('slow')],
  webhooks: [
    {
      name: 'shop',
      workspaceId,
      secret: shopSecret,
      map: ({ order }) => ({ taskName: 'Ship', payload: { subject: JSON.stringify(order) } }),
    },
  ],
  catalog: [
    ...works.flatMap(define),
    ...Object.entries(gated).flatMap(([name, task]) => [
      typeOf(task, `connector.${name}.ask`),
      ...taskOf(task, `connector.${name}.ask`, name),
    ]),
  ],
})
