/**
 * Book Hotel: always needs an approval, and a second one above the limit; books once whatever the vendor answers; the vendor's
 * cancellation undoes it.
 */
import { z } from 'zod'
import {
  defineCommandType,
  defineConnectorOperation,
  type Definition,
  defineEffect,
  defineFunction,
  defineTask,
  registerRetry,
} from '#domains/commands'
import { retryableErrorClasses } from '#kernel/error-classes'
import { defineRetryPolicy } from '#kernel/retry-policy'
import { callTimeoutOf, type ExampleOptions, retryOf } from './example-options.ts'
import { textOf } from './payload-text.ts'
import { callVendor } from './vendor-client.ts'

const day = z.iso.date()
export const bookHotelExample = {
  booking_draft_id: 'draft-17',
  hotel_name: 'Hotel Adler',
  check_in_date: '2026-06-01',
  check_out_date: '2026-06-04',
  total_price: 910,
  currency: 'USD',
  cancellation_policy_summary: 'Free of charge until two days before arrival.',
}

const payload = z
  .strictObject({
    booking_draft_id: z.string().regex(/^[\w-]{1,64}$/, 'letters, digits, - and _'),
    hotel_name: z.string().min(1).max(200),
    check_in_date: day,
    check_out_date: day,
    total_price: z.number().nonnegative().max(100_000),
    /** The limit for the second approver is in dollars and the rule compares numbers, so nothing else is taken. */
    currency: z.literal('USD'),
    cancellation_policy_summary: z.string().min(1).max(2_000),
  })
  .refine(({ check_in_date, check_out_date }) => check_in_date < check_out_date, 'check-out is after check-in')
  .meta({ example: bookHotelExample })

const OPERATION = 'hotel_booking.book_hotel'
const EFFECT = `connector.${OPERATION}`
const CANCEL = 'hotel_booking.cancel'
const PAPER = 'artifact.reservation_confirmation'
/** In dollars; above it a second person must approve. */
const SECOND_APPROVER_ABOVE = 500
/** A confirmation that is not ready now is not ready a second later either. */
const PAPER_BACKOFF_SECONDS = [60, 600, 3_600]

function effects(options: ExampleOptions): readonly Definition[] {
  const { vendorUrl } = options
  const timeout_ms = callTimeoutOf(options)
  return [
    defineEffect({
      effect_type: EFFECT,
      class: 'keyed',
      timeout_ms,
      requires_compensation: true,
      async do({ payload: { booking_draft_id, ...stay }, idempotencyKey: key, signal }) {
        const body = { client_reference: booking_draft_id, ...stay }
        const { reservation_id } = await callVendor({ url: `${vendorUrl}/reservations`, key, body, signal })
        return { reservation_id: String(reservation_id), hotel_name: stay['hotel_name'] ?? null }
      },
      undo: {
        name: 'cancel_reservation',
        produces: [CANCEL],
        timeout_ms,
        // By our own reference and not by the vendor's number: a booking that a person found at the vendor has no number here.
        async do({ undone, idempotencyKey: key, signal, emit }) {
          const body = { client_reference: undone.payload['booking_draft_id'] }
          const { reservation_id } = await callVendor({ url: `${vendorUrl}/cancellations`, key, body, signal })
          emit(CANCEL)
          return { reservation_id: String(reservation_id) }
        },
      },
    }),
    defineEffect({
      effect_type: PAPER,
      class: 'read',
      timeout_ms,
      async do({ payload: draft, signal, artifacts }) {
        const reference = encodeURIComponent(textOf(draft, 'booking_draft_id'))
        const url = `${vendorUrl}/reservations/${reference}/confirmation`
        const { reservation_id, text } = await callVendor({ url, signal })
        const { artifact_id, checksum } = await artifacts.write({
          type: 'reservation_confirmation',
          title: `Confirmation of ${textOf(draft, 'booking_draft_id')}`,
          content: { text: String(text) },
        })
        return { reservation_id: String(reservation_id), text: String(text), checksum, artifact_id }
      },
    }),
  ]
}

export function bookHotel(options: ExampleOptions): readonly Definition[] {
  const contract = { connector: 'hotel_booking', side_effect: true, idempotency_required: true }
  return [
    defineConnectorOperation({
      ...contract,
      operation: 'book_hotel',
      idempotency_key_template: 'book_hotel:{booking_draft_id}',
      approval_required: true,
    }),
    defineConnectorOperation({ ...contract, operation: 'cancel' }),
    retryOf(OPERATION, options),
    registerRetry(
      defineRetryPolicy({
        operation: PAPER,
        retryable: retryableErrorClasses,
        max_attempts: 4,
        backoff_seconds: PAPER_BACKOFF_SECONDS,
      }),
    ),
    ...effects(options),
    defineFunction({
      name: 'book_hotel',
      plan({ booking_draft_id = null, hotel_name = null, check_in_date = null, check_out_date = null }) {
        const stay = { booking_draft_id, hotel_name, check_in_date, check_out_date }
        return [
          { effect_type: EFFECT, payload: stay },
          { effect_type: PAPER, payload: { booking_draft_id } },
        ]
      },
      result: ([, paper]) => paper,
    }),
    defineCommandType({
      name: 'book_hotel',
      description: 'Books a room at the vendor and fetches its confirmation.',
      payload,
      side_effects: [EFFECT, PAPER],
      error_classes: [
        'transient_connector_error',
        'rate_limited',
        'timeout',
        'validation_error',
        'policy_denied',
        'approval_rejected',
        'malformed_payload',
        'internal_error',
      ],
      compensation: { supported: true },
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created', 'policy_evaluated', 'approval_requested', 'plan_created', 'effect_executed'],
      risk_level: 'high',
      approval: { required: true, approval_type: 'hotel_booking_approval', approver: 'role:booking_approver' },
      idempotency: { required: true, key_template: 'book_hotel:{booking_draft_id}' },
      cancellation_mode: 'compensate_then_stop',
    }),
    defineTask({
      name: 'Book Hotel',
      description: 'A room for some nights.',
      command_type: 'book_hotel',
      function_name: 'book_hotel',
      ingress_types: ['user_request', 'agent_action'],
      required_inputs: [
        'booking_draft_id',
        'hotel_name',
        'check_in_date',
        'check_out_date',
        'total_price',
        'currency',
        'cancellation_policy_summary',
      ],
      async_required: true,
      approval_required: true,
      artifact_output_possible: true,
      connector_requirements: ['hotel_booking'],
      policy_checks: ['permission', 'data_safety', 'cancellation_policy_disclosed', 'approval_required_for_booking'],
      risk_level: 'high',
      metadata: { second_approver_above: SECOND_APPROVER_ABOVE },
    }),
  ]
}
