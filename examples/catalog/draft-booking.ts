/**
 * Draft Booking: checks for a free room and writes the terms of the booking as an artifact. Its result is the exact input of Book
 * Hotel, so that approvers decide on the vendor's terms and not on typed ones.
 */
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
import { hotelOffer, isStay, nightsOf, offerId, stayDates, vendorErrors } from './hotel-offer.ts'
import { textOf } from './payload-text.ts'
import { callVendor } from './vendor-client.ts'

export const draftBookingExample = {
  booking_draft_id: 'draft-18',
  offer_id: 'O-2',
  check_in_date: '2026-06-01',
  check_out_date: '2026-06-04',
}

const payload = z
  .strictObject({ booking_draft_id: offerId, offer_id: offerId, ...stayDates })
  .refine(isStay, 'check-out is after check-in')
  .meta({ example: draftBookingExample })

const answer = hotelOffer.extend({
  rooms: z.int().nonnegative(),
  cancellation_policy_summary: z.string().min(1).max(2_000),
})

const OPERATION = 'hotel_inventory.check_rooms'
const EFFECT = `connector.${OPERATION}`

export function draftBooking(options: ExampleOptions): readonly Definition[] {
  return [
    defineConnectorOperation({ connector: 'hotel_inventory', operation: 'check_rooms', side_effect: false }),
    retryOf(OPERATION, options),
    defineEffect({
      effect_type: EFFECT,
      class: 'read',
      timeout_ms: callTimeoutOf(options),
      async do({ payload: asked, signal, artifacts }) {
        const [booking_draft_id, check_in_date, check_out_date] = [
          textOf(asked, 'booking_draft_id'),
          textOf(asked, 'check_in_date'),
          textOf(asked, 'check_out_date'),
        ]
        const query = new URLSearchParams({ check_in: check_in_date, check_out: check_out_date })
        const url = `${options.vendorUrl}/offers/${encodeURIComponent(textOf(asked, 'offer_id'))}/rooms?${query.toString()}`
        const parsed = answer.safeParse(await callVendor({ url, signal }))
        if (!parsed.success) throw new EffectFailure('validation_error', 'the vendor sent an offer of another shape')
        const { rooms, hotel_name, price_usd, cancellation_policy_summary } = parsed.data
        if (rooms === 0) throw new EffectFailure('validation_error', `${hotel_name} has no room left`)
        const draft = {
          booking_draft_id,
          hotel_name,
          check_in_date,
          check_out_date,
          total_price: price_usd * nightsOf(check_in_date, check_out_date),
          currency: 'USD',
          cancellation_policy_summary,
        }
        const { artifact_id } = await artifacts.write({
          type: 'booking_draft',
          title: `Draft ${booking_draft_id}: ${hotel_name}`,
          content: { json: draft },
        })
        return { draft, artifact_id }
      },
    }),
    defineFunction({ name: 'draft_booking', plan: (asked) => [{ effect_type: EFFECT, payload: asked }] }),
    defineCommandType({
      name: 'draft_booking',
      description: 'Writes down what booking an offer would mean, if there is a room.',
      payload,
      side_effects: [EFFECT],
      error_classes: vendorErrors,
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created', 'policy_evaluated', 'plan_created', 'effect_executed'],
      idempotency: { required: true, key_template: 'draft_booking:{booking_draft_id}' },
    }),
    defineTask({
      name: 'Draft Booking',
      description: 'A booking that has not been approved yet.',
      command_type: 'draft_booking',
      function_name: 'draft_booking',
      ingress_types: ['user_request', 'agent_action'],
      required_inputs: ['booking_draft_id', 'offer_id', 'check_in_date', 'check_out_date'],
      async_required: true,
      artifact_output_possible: true,
      connector_requirements: ['hotel_inventory'],
      policy_checks: ['permission', 'data_safety'],
    }),
  ]
}
