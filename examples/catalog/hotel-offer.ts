/** The hotel offer and the stay that the tasks of a trip share. */
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

/** The maximum number of offers in an answer. */
export const OFFERS_MAX = 100

export const stayDates = { check_in_date: z.iso.date(), check_out_date: z.iso.date() }

export function isStay({ check_in_date, check_out_date }: { check_in_date: string; check_out_date: string }): boolean {
  return check_in_date < check_out_date
}

const DAY_MS = 86_400_000

/** Counts calendar days, so that daylight saving changes do not matter. */
export function nightsOf(checkIn: string, checkOut: string): number {
  return Math.round((Date.parse(`${checkOut}T00:00:00Z`) - Date.parse(`${checkIn}T00:00:00Z`)) / DAY_MS)
}

/** The error classes of every task that calls the vendor. */
export const vendorErrors = [
  'transient_connector_error',
  'rate_limited',
  'timeout',
  'validation_error',
  'policy_denied',
  'malformed_payload',
  'internal_error',
] as const
