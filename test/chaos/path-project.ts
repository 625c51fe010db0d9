/** A project for kills at named points: one task for each way that a command can take through the governed path. */
import { z } from 'zod'
import {
  defineCommandType,
  defineEffect,
  defineFunction,
  definePolicy,
  defineTask,
  EffectFailure,
  registerRetry,
} from '#domains/commands'
import { defineProject } from '#app/project'
import { errorClasses, retryableErrorClasses } from '#kernel/error-classes'
import { defineRetryPolicy } from '#kernel/retry-policy'

const provider = process.env['CHARGE_PROVIDER_URL'] ?? ''

async function post(path: string, key: string, signal: AbortSignal): Promise<unknown> {
  const response = await fetch(`${provider}/${path}?key=${encodeURIComponent(key)}`, { method: 'POST', signal }).catch(
    (error: unknown) => {
      throw new EffectFailure('transient_connector_error', `no answer: ${String(error)}`, 'unknown')
    },
  )
  if (response.status === 422) throw new EffectFailure('validation_error', 'refused', 'no')
  if (response.status === 503) throw new EffectFailure('transient_connector_error', 'down', 'no')
  if (response.status === 429) throw new EffectFailure('rate_limited', 'slow down', 'no')
  if (response.status >= 500) throw new EffectFailure('transient_connector_error', `${response.status}`, 'unknown')
  return response.json()
}

async function look(key: string, signal: AbortSignal) {
  const response = await fetch(`${provider}/look?key=${encodeURIComponent(key)}`, { signal })
  const { found } = (await response.json()) as { found: boolean }
  return found ? { found, result: { looked_up: true } } : { found }
}

const kinds = {
  keyed: 'keyed',
  steady: 'keyed',
  held: 'keyed',
  slow: 'keyed',
  refused: 'keyed',
  queryable: 'queryable',
  doubtful: 'queryable',
  blind: 'opaque',
} as const
type Kind = keyof typeof kinds

function effect(kind: Kind) {
  const operation = `pay.${kind}`
  return [
    registerRetry(
      defineRetryPolicy({
        operation,
        retryable: retryableErrorClasses,
        // Of what is held so many are half a minute: a stop that was lost with its server must not hold up the end of the run.
        max_attempts: kind === 'held' ? 30 : 100,
        // What is held is asked for until somebody stops it: not so often that it is all the machine does.
        backoff_seconds: kind === 'held' ? [0.3, 0.6, 1] : [0.05, 0.1, 0.2, 0.3],
        requires_idempotency_key: true,
      }),
    ),
    defineEffect({
      effect_type: operation,
      class: kinds[kind],
      timeout_ms: 8_000,
      bounded: kind === 'steady',
      do: ({ idempotencyKey, signal }) => post(kind, idempotencyKey, signal),
      ...(kinds[kind] === 'queryable' ? { find: ({ idempotencyKey, signal }) => look(idempotencyKey, signal) } : {}),
      ...(kind === 'steady'
        ? {
            undo: {
              name: `refund_${kind}`,
              class: 'keyed' as const,
              do: ({ idempotencyKey, signal }) => post('undo', idempotencyKey, signal),
            },
          }
        : {}),
    }),
  ]
}

type Task = { readonly steps: readonly Kind[]; readonly more?: object; readonly undoes?: boolean }
/** The name of the task, what it does, and what else is special about it. */
const tasks: Readonly<Record<string, Task>> = {
  Pay: { steps: ['keyed', 'queryable'] },
  'Pay steadily': { steps: ['steady'] },
  'Pay at once': { steps: ['steady'], more: { async_required: false, sync_allowed: true } },
  'Pay when agreed': { steps: ['keyed'], more: { policy_checks: ['permission', 'finance_agrees'] } },
  'Pay when told': { steps: ['keyed'], more: { required_inputs: ['note', 'account'] } },
  'Pay until stopped': { steps: ['steady', 'steady', 'held'], undoes: true },
  'Pay on the second run': { steps: ['steady', 'refused'] },
  'Pay slowly': { steps: ['slow'] },
  'Pay in doubt': { steps: ['doubtful'] },
  'Pay blindly': { steps: ['blind'] },
}

function task([name, { steps, more = {}, undoes = false }]: [string, Task]) {
  const command = name.toLowerCase().replaceAll(' ', '_')
  return [
    defineFunction({
      name: command,
      plan: ({ note }) => steps.map((kind) => ({ effect_type: `pay.${kind}`, payload: { note: note ?? null } })),
      result: ([first]) => first,
    }),
    defineCommandType({
      name: command,
      description: `${name}.`,
      payload: z.strictObject({ note: z.string(), account: z.string().optional() }),
      side_effects: [...new Set(steps)].map((kind) => `pay.${kind}`),
      error_classes: errorClasses,
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created', 'policy_evaluated'],
      ...(undoes ? { cancellation_mode: 'compensate_then_stop' as const, compensation: { supported: true } } : {}),
    }),
    defineTask({
      name,
      description: `${name}.`,
      command_type: command,
      function_name: command,
      ingress_types: ['user_request'],
      required_inputs: ['note'],
      async_required: true,
      policy_checks: ['permission'],
      ...more,
    }),
  ]
}

export default defineProject({
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
    ...(Object.keys(kinds) as Kind[]).flatMap(effect),
    ...Object.entries(tasks).flatMap(task),
  ],
})
