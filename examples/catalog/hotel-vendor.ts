/** The hotel vendor as connectors: its bookings, its rooms and its rates. */
import { httpConnector } from '@concordhq/concord'
import { z } from 'zod'

export type VendorOptions = {
  /** The address of the vendor, `examples/hotel-vendor.ts`. */
  readonly vendorUrl: string
  /** The pauses between the attempts of a call. */
  readonly backoffSeconds?: readonly number[]
}

export const reference = z.string().regex(/^[\w-]{1,64}$/, 'letters, digits, - and _')
export const stay = { check_in_date: z.iso.date(), check_out_date: z.iso.date() }
type Stay = Readonly<Record<keyof typeof stay, string>>
export const isStay = ({ check_in_date, check_out_date }: Stay) => check_in_date < check_out_date

export const hotelOffer = z.object({
  offer_id: reference,
  city: z.string().min(1).max(100),
  hotel_name: z.string().min(1).max(200),
  price_usd: z.number().nonnegative().max(100_000),
  quiet: z.boolean(),
  breakfast: z.boolean(),
})
export const rate = z.object({
  rate_id: z.string().min(1).max(64),
  hotel_name: z.string().max(200),
  night: z.iso.date(),
  price_usd: z.number().nonnegative(),
})

export type HotelVendor = ReturnType<typeof hotelVendor>

export function hotelVendor({ vendorUrl, backoffSeconds: backoff_seconds = [2, 10, 60] }: VendorOptions) {
  const site = { base_url: vendorUrl, reach: { allow_http: true, private_networks: ['127.0.0.0/8'] } }
  // The vendor fails up to three times in a row.
  const terms = { attempts_max: 4, backoff_seconds, timeout_ms: 10_000 }
  const reads = { ...terms, method: 'GET', side_effect_class: 'none' } as const
  const writes = { ...terms, method: 'POST', side_effect_class: 'keyed', key_in_answer: 'key' } as const
  const reserved = z.object({ reservation_id: z.string() })
  const booking = httpConnector({
    ...site,
    name: 'hotel_booking',
    description: 'Offers and bookings of the vendor.',
    operations: [
      {
        ...reads,
        name: 'search',
        description: 'Lists the offers in a city.',
        path: '/offers',
        query: ['city', 'check_in', 'check_out'],
        input: z.strictObject({ city: z.string(), check_in: z.string(), check_out: z.string() }),
        output: z.object({ offers: z.array(hotelOffer).max(200) }),
      },
      {
        ...writes,
        name: 'book_hotel',
        description: 'Books a room, once per key.',
        path: '/reservations',
        input: z.strictObject({ client_reference: reference, hotel_name: z.string(), ...stay }),
        output: reserved,
        risk_level: 'high',
        approval_required: true,
        idempotency: { required: true, key_template: 'book_hotel:{client_reference}' },
        // By our reference: a booking that a person found at the vendor has no reservation id here.
        compensation: {
          name: 'cancel_reservation',
          operation: 'cancel',
          input: { client_reference: '{input.client_reference}' },
        },
      },
      {
        ...writes,
        name: 'cancel',
        description: 'Cancels a booking.',
        path: '/cancellations',
        input: z.strictObject({ client_reference: reference }),
        output: reserved,
      },
      {
        ...reads,
        name: 'confirmation',
        description: 'Fetches the confirmation of a booking.',
        path: '/reservations/{client_reference}/confirmation',
        input: z.strictObject({ client_reference: reference }),
        output: reserved.extend({ text: z.string() }),
        // A confirmation that is not ready now is not ready a second later either.
        backoff_seconds: [60, 600, 3_600],
      },
    ],
  })
  const inventory = httpConnector({
    ...site,
    name: 'hotel_inventory',
    description: 'Free rooms of the vendor.',
    operations: [
      {
        ...reads,
        name: 'check_rooms',
        description: 'Returns the free rooms of an offer, their price and their terms.',
        path: '/offers/{offer_id}/rooms',
        query: ['check_in', 'check_out'],
        input: z.strictObject({ offer_id: reference, check_in: z.string(), check_out: z.string() }),
        output: hotelOffer.extend({ rooms: z.int(), cancellation_policy_summary: z.string().min(1).max(2_000) }),
      },
    ],
  })
  const data = httpConnector({
    ...site,
    name: 'vendor_data',
    description: 'Rates of the vendor.',
    operations: [
      {
        ...reads,
        name: 'sync_rates',
        description: 'Lists all rates.',
        path: '/rates',
        input: z.strictObject({}),
        output: z.object({ rates: z.array(rate).max(10_000) }),
      },
    ],
  })
  return { booking, inventory, data }
}
