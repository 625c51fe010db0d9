/** A project for kill tests: two tasks that pay, one with a provider that dedupes by key, one that must be looked up. */
import { z } from 'zod'
import {
  defineCommandType,
  defineEffect,
  defineFunction,
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
  if (response.status === 503) throw new EffectFailure('transient_connector_error', 'down', 'no')
  if (response.status === 429) throw new EffectFailure('rate_limited', 'slow down', 'no')
  if (response.status >= 500) throw new EffectFailure('transient_connector_error', `${response.status}`, 'unknown')
  return response.json()
}

function charge(kind: 'keyed' | 'queryable') {
  const [operation, command] = [`pay.${kind}`, `charge_${kind}`]
  return [
    registerRetry(
      defineRetryPolicy({
        operation,
        retryable: retryableErrorClasses,
        max_attempts: 20,
        backoff_seconds: [0.05, 0.1, 0.2, 0.3],
        requires_idempotency_key: true,
      }),
    ),
    defineEffect({
      effect_type: operation,
      class: kind,
      timeout_ms: 5_000,
      do: ({ idempotencyKey, signal }) => post(kind, idempotencyKey, signal),
      ...(kind === 'keyed'
        ? {}
        : {
            find: async ({ idempotencyKey, signal }) => {
              const response = await fetch(`${provider}/look?key=${encodeURIComponent(idempotencyKey)}`, { signal })
              const { found } = (await response.json()) as { found: boolean }
              return found ? { found, result: { looked_up: true } } : { found }
            },
          }),
    }),
    defineFunction({
      name: command,
      plan: ({ note }) => [{ effect_type: operation, payload: { note: note ?? null } }],
      result: ([first]) => first,
    }),
    defineCommandType({
      name: command,
      description: `Pays once, through a provider that is ${kind}.`,
      payload: z.strictObject({ note: z.string() }),
      side_effects: [operation],
      error_classes: errorClasses,
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created', 'policy_evaluated'],
    }),
    defineTask({
      name: `Charge ${kind}`,
      description: 'Pays once.',
      command_type: command,
      function_name: command,
      ingress_types: ['user_request'],
      required_inputs: ['note'],
      async_required: true,
      policy_checks: ['permission'],
    }),
  ]
}

export default defineProject({ catalog: [...charge('keyed'), ...charge('queryable')] })
