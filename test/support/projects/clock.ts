/** Work whose outcome depends on the clock: a tick every minute, a call that hangs, a call that is repeated after a pause, and a question. */
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { defineProject } from '../../../src/app/project.ts'
import {
  defineConnectorOperation,
  defineEffect,
  defineSchedule,
  EffectFailure,
  registerRetry,
} from '../../../src/domains/commands/index.ts'
import { defineRetryPolicy } from '../../../src/kernel/retry-policy.ts'
import { everyMinute, tickDefinitions } from './commands.ts'
import { defineWork } from './define-work.ts'

/** The provider is well once this file exists. */
const isWell = () => existsSync(process.env['CLOCK_TEST_WELL'] ?? '')

const payload = z.strictObject({})
const work = (name: string, effect: string, more: object = {}) =>
  defineWork({ name, payload, plan: () => [{ effect_type: effect, payload: {} }], effects: [effect], ...more })

export default defineProject({
  catalog: [
    ...tickDefinitions,
    defineSchedule({ ...everyMinute, misfire: 'skip' }),
    defineEffect({
      effect_type: 'clock.hang',
      class: 'keyed',
      async do({ signal }) {
        while (!isWell() && !signal.aborted) await sleep(20)
        return {}
      },
    }),
    defineEffect({
      effect_type: 'connector.clock.repeat',
      class: 'keyed',
      do: () =>
        isWell() ? Promise.resolve({}) : Promise.reject(new EffectFailure('transient_connector_error', 'not yet')),
    }),
    defineConnectorOperation({
      connector: 'clock',
      operation: 'repeat',
      side_effect: true,
      idempotency_required: true,
    }),
    registerRetry(
      defineRetryPolicy({
        operation: 'clock.repeat',
        retryable: ['transient_connector_error'],
        max_attempts: 4,
        backoff_seconds: [5, 5, 5],
        requires_idempotency_key: true,
      }),
    ),
    ...work('Hang', 'clock.hang'),
    ...work('Repeat', 'connector.clock.repeat', { task: { connector_requirements: ['clock'] } }),
    ...work('Ask', 'tick.do', { type: { approval: { required: true, approver: 'role:boss' } } }),
  ],
})
