/**
 * A project whose effects call a system in another process: one task for each path of a command, and one for each way in which
 * work could happen too often or too much at once. The chaos stories and the journeys with several processes use it.
 */
import { z } from 'zod'
import {
  defineConnectorOperation,
  defineEffect,
  definePolicy,
  defineProject,
  type Definition,
  EffectFailure,
  httpConnector,
  registerRetry,
} from '../../../src/index.ts'
import type { JsonObject, JsonValue } from '../../../src/kernel/json-value.ts'
import { retryableErrorClasses } from '../../../src/kernel/error-classes.ts'
import { defineRetryPolicy } from '../../../src/kernel/retry-policy.ts'
import { defineWork } from './define-work.ts'
import { payingAgents } from './paying-agents.ts'

const outside = process.env['OUTSIDE_URL'] ?? 'http://127.0.0.1:1'
const workspaceId = process.env['SHOP_WORKSPACE'] ?? ''
const modelUrl = process.env['MODEL_URL']
export const shopSecret = Buffer.from('the secret of the shop')
export const ATTEMPTS_MAX = 3
export const RUNS_MAX = 2
export const CALLS_PER_MINUTE = 4
export const CALLS_AT_ONCE = 2

type Posted = { readonly idempotencyKey: string; readonly signal: AbortSignal }

async function post(path: string, { idempotencyKey: key, signal }: Posted, timeoutMs: number): Promise<unknown> {
  const until = String(Date.now() + timeoutMs)
  const query = new URLSearchParams({ key, by: String(process.pid), until }).toString()
  const response = await fetch(`${outside}/${path}?${query}`, { method: 'POST', signal }).catch((error: unknown) => {
    throw new EffectFailure('transient_connector_error', `no answer: ${String(error)}`, 'unknown')
  })
  if (response.status === 422) throw new EffectFailure('validation_error', 'refused', 'no')
  if (response.status === 503) throw new EffectFailure('transient_connector_error', 'down', 'no')
  if (response.status === 429) throw new EffectFailure('rate_limited', 'slow down', 'no')
  if (!response.ok) throw new EffectFailure('transient_connector_error', `${response.status}`, 'unknown')
  return response.json()
}

async function findPayment(key: string, signal: AbortSignal) {
  const response = await fetch(`${outside}/look?key=${encodeURIComponent(key)}`, { signal })
  const { found } = (await response.json()) as { found: boolean }
  return found ? { found, result: { looked_up: true } } : { found }
}

type Effect = {
  readonly class: 'keyed' | 'queryable' | 'opaque'
  readonly attemptsMax?: number
  readonly backoffSeconds?: readonly number[]
  readonly timeoutMs?: number
  readonly isBounded?: boolean
  readonly undo?: string
}

/** A test holds these calls back for as long as it likes. */
const shop = { attemptsMax: ATTEMPTS_MAX, backoffSeconds: [0.05], timeoutMs: 80_000 }

/** The last part of the name is the path that the effect calls. */
const effects: Readonly<Record<string, Effect>> = {
  'pay.keyed': { class: 'keyed' },
  'pay.steady': { class: 'keyed', isBounded: true, undo: 'refund_steady' },
  // Refused until the command is cancelled. 30 attempts take half a minute: a cancellation that was lost with its server must not
  // delay the end of the run, and more attempts would keep the machine busy.
  'pay.held': { class: 'keyed', attemptsMax: 30, backoffSeconds: [0.3, 0.6, 1] },
  'pay.slow': { class: 'keyed' },
  'pay.refused': { class: 'keyed' },
  'pay.breaking': { class: 'queryable', attemptsMax: 4 },
  'pay.declined': { class: 'queryable' },
  'pay.queryable': { class: 'queryable' },
  'pay.doubtful': { class: 'queryable' },
  'pay.blind': { class: 'opaque' },
  'shop.ship': { class: 'opaque', ...shop },
  'shop.forgetful': { class: 'keyed', ...shop },
  'shop.work': { class: 'opaque', ...shop },
  'shop.down': { class: 'keyed', ...shop },
  'connector.press.print': { class: 'keyed', ...shop },
}

function effect([name, spec]: [string, Effect]): readonly Definition[] {
  const path = name.split('.').at(-1) ?? ''
  const { attemptsMax = 100, backoffSeconds = [0.05, 0.1, 0.2, 0.3], timeoutMs = 8_000, isBounded = false } = spec
  return [
    registerRetry(
      defineRetryPolicy({
        operation: name.replace(/^connector\./, ''),
        retryable: retryableErrorClasses,
        max_attempts: attemptsMax,
        backoff_seconds: backoffSeconds,
        requires_idempotency_key: true,
      }),
    ),
    defineEffect({
      effect_type: name,
      class: spec.class,
      timeout_ms: timeoutMs,
      bounded: isBounded,
      do: (call) => post(path, call, timeoutMs),
      ...(spec.class === 'queryable'
        ? { find: ({ idempotencyKey, signal }) => findPayment(idempotencyKey, signal) }
        : {}),
      ...(spec.undo === undefined
        ? {}
        : {
            undo: {
              name: spec.undo,
              class: 'keyed' as const,
              do: (call) => post('undo', call, timeoutMs),
            },
          }),
    }),
  ]
}

type Task = {
  readonly effects: readonly string[]
  readonly type?: Parameters<typeof defineWork>[0]['type']
  readonly task?: Parameters<typeof defineWork>[0]['task']
}

const atShop = { ingress_types: ['user_request', 'webhook'], max_attempts: RUNS_MAX } as const

const tasks: Readonly<Record<string, Task>> = {
  Pay: { effects: ['pay.keyed', 'pay.queryable'] },
  'Pay keyed': { effects: ['pay.keyed'] },
  'Pay queryable': { effects: ['pay.queryable'] },
  'Pay steadily': { effects: ['pay.steady'] },
  'Pay at once': { effects: ['pay.steady'], task: { async_required: false, sync_allowed: true } },
  'Pay when agreed': { effects: ['pay.keyed'], task: { policy_checks: ['permission', 'finance_agrees'] } },
  'Pay when told': { effects: ['pay.keyed'], task: { required_inputs: ['note', 'account'] } },
  'Pay when signalled': { effects: ['signal.wait', 'time.sleep', 'pay.keyed'] },
  'Pay until stopped': {
    effects: ['pay.steady', 'pay.steady', 'pay.held'],
    type: { cancellation_mode: 'compensate_then_stop', compensation: { supported: true } },
  },
  'Pay and regret': { effects: ['pay.steady', 'pay.steady'] },
  'Pay on the second run': { effects: ['pay.steady', 'pay.refused'] },
  'Pay after a break': { effects: ['pay.steady', 'pay.breaking'], task: { max_attempts: 4 } },
  'Pay in vain': { effects: ['pay.steady', 'pay.declined'] },
  'Pay slowly': { effects: ['pay.slow'] },
  'Pay in doubt': { effects: ['pay.doubtful'] },
  'Pay blindly': { effects: ['pay.blind'] },
  'Pay as agent': {
    effects: ['pay.steady', 'pay.steady', 'pay.steady'],
    task: { ingress_types: ['user_request', 'agent_action'] },
  },
  Ship: { effects: ['shop.ship'], task: atShop },
  Publish: {
    effects: ['shop.forgetful'],
    type: { idempotency: { required: true, key_template: 'publish:{note}' } },
    task: atShop,
  },
  Work: { effects: ['shop.work'], task: atShop },
  Fail: { effects: ['shop.down'], task: atShop },
  Print: { effects: ['connector.press.print'], task: { ...atShop, connector_requirements: ['press'] } },
  'Ask Narrowly': { effects: ['connector.narrow.ask'], task: { ...atShop, connector_requirements: ['narrow'] } },
  'Ask Slowly': { effects: ['connector.slow.ask'], task: { ...atShop, connector_requirements: ['slow'] } },
}

function payloadOf(effectType: string, note: JsonValue): JsonObject {
  if (effectType === 'signal.wait') return { name: 'pay.agreed', key: note, timeout_ms: 86_400_000 }
  return effectType === 'time.sleep' ? { for_ms: 200 } : { note }
}

function limitedConnector(name: 'narrow' | 'slow') {
  return httpConnector({
    name,
    description: 'Takes few calls.',
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
        input: z.strictObject({ note: z.string() }),
        output: z.looseObject({}),
        side_effect_class: 'none',
        timeout_ms: 80_000,
        attempts_max: 100,
        // A call that exceeds the limit of a minute retries after it; a slot of the narrow connector is free in a moment.
        backoff_seconds: name === 'narrow' ? [0.5] : [300],
      },
    ],
  })
}

export default defineProject({
  ...(modelUrl === undefined ? {} : payingAgents(modelUrl)),
  connectors: [limitedConnector('narrow'), limitedConnector('slow')],
  webhooks: [
    {
      name: 'shop',
      workspace: workspaceId,
      secret: shopSecret,
      map: ({ order }) => ({ taskName: 'Ship', payload: { note: JSON.stringify(order) } }),
    },
  ],
  catalog: [
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
    defineConnectorOperation({
      connector: 'press',
      operation: 'print',
      side_effect: true,
      idempotency_required: true,
    }),
    ...Object.entries(effects).flatMap(effect),
    ...Object.entries(tasks).flatMap(([name, { effects: steps, type = {}, task = {} }]) =>
      defineWork({
        name,
        payload: z.strictObject({ note: z.string(), account: z.string().optional() }),
        plan: ({ note }) =>
          steps.map((effect_type) => ({ effect_type, payload: payloadOf(effect_type, note ?? null) })),
        result: ([first]) => first,
        effects: [...new Set(steps)],
        type,
        task: { required_inputs: ['note'], ...task },
      }),
    ),
  ],
})
