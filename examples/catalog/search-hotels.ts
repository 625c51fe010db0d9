/** Search Hotels: asks the vendor, changes nothing, and counts a duplicate offer once. */
import { z } from 'zod'
import {
  defineCommandType,
  defineConnectorOperation,
  type Definition,
  defineEffect,
  defineFunction,
  defineTask,
  EffectFailure,
} from '#domains/commands'
import { callTimeoutOf, type ExampleOptions, retryOf } from './example-options.ts'
import { hotelOffer, isStay, OFFERS_MAX, stayDates, vendorErrors } from './hotel-offer.ts'
import { textOf } from './payload-text.ts'
import { callVendor } from './vendor-client.ts'

export const searchHotelsExample = { city: 'Berlin', check_in_date: '2026-06-01', check_out_date: '2026-06-04' }

const payload = z
  .strictObject({ city: z.string().min(1).max(100), ...stayDates })
  .refine(isStay, 'check-out is after check-in')
  .meta({ example: searchHotelsExample })

const answer = z.object({ offers: z.array(hotelOffer).max(2 * OFFERS_MAX) })

const OPERATION = 'hotel_booking.search'
const EFFECT = `connector.${OPERATION}`

export function searchHotels(options: ExampleOptions): readonly Definition[] {
  return [
    defineConnectorOperation({ connector: 'hotel_booking', operation: 'search', side_effect: false }),
    retryOf(OPERATION, options),
    defineEffect({
      effect_type: EFFECT,
      class: 'read',
      timeout_ms: callTimeoutOf(options),
      async do({ payload: asked, signal }) {
        const query = new URLSearchParams({
          city: textOf(asked, 'city'),
          check_in: textOf(asked, 'check_in_date'),
          check_out: textOf(asked, 'check_out_date'),
        })
        const parsed = answer.safeParse(
          await callVendor({ url: `${options.vendorUrl}/offers?${query.toString()}`, signal }),
        )
        if (!parsed.success) throw new EffectFailure('validation_error', 'the vendor sent offers of another shape')
        const once = new Map(parsed.data.offers.map((offer) => [offer.offer_id, offer]))
        return { offers: [...once.values()].slice(0, OFFERS_MAX), rows_received: parsed.data.offers.length }
      },
    }),
    defineFunction({ name: 'search_hotels', plan: (asked) => [{ effect_type: EFFECT, payload: asked }] }),
    defineCommandType({
      name: 'search_hotels',
      description: 'Asks the vendor what it has in a city.',
      payload,
      side_effects: [EFFECT],
      error_classes: vendorErrors,
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created', 'policy_evaluated', 'plan_created', 'effect_executed'],
    }),
    defineTask({
      name: 'Search Hotels',
      description: 'What the vendor has for these nights.',
      command_type: 'search_hotels',
      function_name: 'search_hotels',
      ingress_types: ['user_request', 'agent_action'],
      required_inputs: ['city', 'check_in_date', 'check_out_date'],
      async_required: true,
      connector_requirements: ['hotel_booking'],
      policy_checks: ['permission', 'data_safety'],
    }),
  ]
}
