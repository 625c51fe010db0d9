/** Book Hotel: needs an approval, and a second one above the limit; books once whatever the vendor answers; its undo cancels. */
import { defineCommand, defineEffect, from } from '@concordhq/concord'
import { z } from 'zod'
import { type HotelVendor, isStay, reference, stay } from './hotel-vendor.ts'

export const bookHotelExample = {
  booking_draft_id: 'draft-17',
  hotel_name: 'Hotel Adler',
  check_in_date: '2026-06-01',
  check_out_date: '2026-06-04',
  total_price: 910,
  currency: 'USD' as const,
  cancellation_policy_summary: 'Free of charge until two days before arrival.',
}

const input = z
  .strictObject({
    booking_draft_id: reference,
    hotel_name: z.string().min(1).max(200),
    ...stay,
    total_price: z.number().nonnegative().max(100_000),
    /** The limit for the second approver is in dollars. */
    currency: z.literal('USD'),
    cancellation_policy_summary: z.string().min(1).max(2_000),
  })
  .refine(isStay, 'check-out is after check-in')
  .meta({ example: bookHotelExample })

const keepConfirmation = defineEffect('artifact.reservation_confirmation', {
  input: z.object({ draft: z.string(), reservation_id: z.string(), text: z.string() }),
  class: 'read',
  async do({ input: { draft, reservation_id, text }, artifacts }) {
    const title = `Confirmation of ${draft}`
    const written = await artifacts.write({ type: 'reservation_confirmation', title, content: { text } })
    return { reservation_id, text, checksum: written.checksum, artifact_id: written.artifact_id }
  },
})

export const bookHotel = ({ booking }: HotelVendor) =>
  defineCommand('book_hotel', {
    description: 'Books a room at the vendor and fetches its confirmation.',
    input,
    key: ({ booking_draft_id }) => `book_hotel:${booking_draft_id}`,
    policy: ['cancellation_policy_disclosed', 'approval_required_for_booking'],
    approval: { required: true, approval_type: 'hotel_booking_approval', approver: 'role:booking_approver' },
    steps({ booking_draft_id: client_reference, hotel_name, check_in_date, check_out_date }) {
      const confirmed = booking.confirmation({ client_reference })
      const written = { reservation_id: from(confirmed, 'reservation_id'), text: from(confirmed, 'text') }
      return [
        booking.book_hotel({ client_reference, hotel_name, check_in_date, check_out_date }),
        confirmed,
        keepConfirmation({ draft: client_reference, ...written }),
      ]
    },
    task: {
      name: 'Book Hotel',
      ingress_types: ['user_request', 'agent_action'],
      required_inputs: Object.keys(input.shape),
      metadata: { second_approver_above: 500 },
    },
  })
