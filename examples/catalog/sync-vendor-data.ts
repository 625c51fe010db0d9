/** Sync Vendor Data: runs on a schedule, without approval; the class of an error decides whether it is retried. */
import { z } from 'zod'
import {
  defineCommandType,
  defineConnectorOperation,
  type Definition,
  defineEffect,
  defineFunction,
  defineSchedule,
  defineTask,
  EffectFailure,
} from '#domains/commands'
import { callTimeoutOf, type ExampleOptions, retryOf } from './example-options.ts'
import { ratesFile, upsertRates } from './rates-copy.ts'
import { callVendor } from './vendor-client.ts'

export const syncVendorDataExample = { dataset: 'rates' }

/** A firing has no payload, so every field has a default. */
const payload = z.strictObject({ dataset: z.enum(['rates']).default('rates') }).meta({ example: syncVendorDataExample })

const answer = z.object({
  rates: z
    .array(
      z.object({
        rate_id: z.string().min(1).max(64),
        hotel_name: z.string().max(200),
        night: z.iso.date(),
        price_usd: z.number().nonnegative(),
      }),
    )
    .max(10_000),
})

const OPERATION = 'vendor_data.sync_rates'
const EFFECT = `connector.${OPERATION}`

export function syncVendorData(options: ExampleOptions): readonly Definition[] {
  const { vendorUrl, folder } = options
  return [
    defineConnectorOperation({
      connector: 'vendor_data',
      operation: 'sync_rates',
      side_effect: true,
      idempotency_required: true,
    }),
    retryOf(OPERATION, options),
    // No compensation: a sync stores the vendor's data, and the next one would store it again.
    defineEffect({
      effect_type: EFFECT,
      class: 'keyed',
      timeout_ms: callTimeoutOf(options),
      async do({ signal }) {
        const parsed = answer.safeParse(await callVendor({ url: `${vendorUrl}/rates`, signal }))
        if (!parsed.success) throw new EffectFailure('validation_error', 'the vendor sent rates of another shape')
        const { rates } = parsed.data
        upsertRates(ratesFile(folder), rates)
        return { rows_received: rates.length, rates: new Set(rates.map(({ rate_id }) => rate_id)).size }
      },
    }),
    defineFunction({ name: 'sync_vendor_data', plan: () => [{ effect_type: EFFECT, payload: {} }] }),
    defineCommandType({
      name: 'sync_vendor_data',
      description: 'Brings the copy of the vendor data up to date.',
      payload,
      side_effects: [EFFECT],
      error_classes: ['transient_connector_error', 'rate_limited', 'timeout', 'validation_error', 'internal_error'],
      cancellable_by: ['writer', 'admin'],
      audit: ['command_created', 'policy_evaluated', 'plan_created', 'effect_executed'],
    }),
    defineTask({
      name: 'Sync Vendor Data',
      description: 'The rates of the vendor, in a table of our own.',
      command_type: 'sync_vendor_data',
      function_name: 'sync_vendor_data',
      ingress_types: ['scheduled_trigger', 'user_request'],
      async_required: true,
      connector_requirements: ['vendor_data'],
      policy_checks: ['permission'],
    }),
    defineSchedule({
      name: 'sync_vendor_rates',
      command_type: 'sync_vendor_data',
      cron: '0 * * * *',
      queue: 'scheduled_maintenance',
    }),
  ]
}
