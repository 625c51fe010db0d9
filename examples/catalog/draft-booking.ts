/** Draft Booking: writes the terms of the vendor for a free room. Its result is the exact input of Book Hotel. */
import { defineCommand, defineEffect, EffectFailure, from } from '@concordhq/concord'
import { z } from 'zod'
import { type HotelVendor, isStay, reference, stay } from './hotel-vendor.ts'

const dates = { check_in_date: '2026-06-01', check_out_date: '2026-06-04' }
export const draftBookingExample = { booking_draft_id: 'draft-18', offer_id: 'O-2', ...dates }

const asked = z.strictObject({ booking_draft_id: reference, offer_id: reference, ...stay })

const DAY_MS = 86_400_000
/** Counts calendar days, so that daylight saving changes do not matter. */
export const nightsOf = (checkIn: string, checkOut: string) => (Date.parse(checkOut) - Date.parse(checkIn)) / DAY_MS

const writeDraft = defineEffect('artifact.booking_draft', {
  input: asked.omit({ offer_id: true }).extend({
    rooms: z.int(),
    hotel_name: z.string(),
    price_usd: z.number(),
    cancellation_policy_summary: z.string(),
  }),
  class: 'read',
  async do({ input: { rooms, price_usd, ...stays }, artifacts }) {
    if (rooms === 0) throw new EffectFailure('validation_error', `${stays.hotel_name} has no room left`)
    const total_price = price_usd * nightsOf(stays.check_in_date, stays.check_out_date)
    const draft = { ...stays, total_price, currency: 'USD' as const }
    const title = `Draft ${draft.booking_draft_id}: ${draft.hotel_name}`
    const { artifact_id } = await artifacts.write({ type: 'booking_draft', title, content: { json: draft } })
    return { draft, artifact_id }
  },
})

export const draftBooking = ({ inventory }: HotelVendor) =>
  defineCommand('draft_booking', {
    description: 'Writes the terms of a booking, if there is a free room.',
    input: asked.refine(isStay, 'check-out is after check-in').meta({ example: draftBookingExample }),
    key: 'draft_booking:{booking_draft_id}',
    policy: [],
    steps({ offer_id, ...stays }) {
      const found = inventory.check_rooms({ offer_id, check_in: stays.check_in_date, check_out: stays.check_out_date })
      const terms = {
        rooms: from(found, 'rooms'),
        hotel_name: from(found, 'hotel_name'),
        price_usd: from(found, 'price_usd'),
        cancellation_policy_summary: from(found, 'cancellation_policy_summary'),
      }
      return [found, writeDraft({ ...stays, ...terms })]
    },
    task: { name: 'Draft Booking', required_inputs: Object.keys(asked.shape) },
  })
