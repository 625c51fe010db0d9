/** What a hotel offer and a stay look like between the tasks of a trip. */
import { z } from 'zod'

export const offerId = z.string().regex(/^[\w-]{1,64}$/, 'letters, digits, - and _')

export const hotelOffer = z.object({
  offer_id: offerId,
  city: z.string().min(1).max(100),
  hotel_name: z.string().min(1).max(200),
  price_usd: z.number().nonnegative().max(100_000),
  quiet: z.boolean(),
  breakfast: z.boolean(),
})
export type HotelOffer = z.infer<typeof hotelOffer>

/** More is no answer that anybody reads. */
export const OFFERS_MAX = 100

export const stayDates = { check_in_date: z.iso.date(), check_out_date: z.iso.date() }

export function isStay({ check_in_date, check_out_date }: { check_in_date: string; check_out_date: string }): boolean {
  return check_in_date < check_out_date
}

const DAY_MS = 86_400_000

/** Days of the calendar, so no clock changes in between count. */
export function nightsOf(checkIn: string, checkOut: string): number {
  return Math.round((Date.parse(`${checkOut}T00:00:00Z`) - Date.parse(`${checkIn}T00:00:00Z`)) / DAY_MS)
}

/** What every task of a trip says about how it can go wrong at the vendor. */
export const vendorErrors = [
  'transient_connector_error',
  'rate_limited',
  'timeout',
  'validation_error',
  'policy_denied',
  'malformed_payload',
  'internal_error',
] as const
