/** Search Hotels: asks the vendor, changes nothing, and counts a duplicate offer once. */
import { defineCommand } from '@concordhq/concord'
import { z } from 'zod'
import { type HotelVendor, isStay, stay } from './hotel-vendor.ts'

export const searchHotelsExample = { city: 'Berlin', check_in_date: '2026-06-01', check_out_date: '2026-06-04' }

const input = z
  .strictObject({ city: z.string().min(1).max(100), ...stay })
  .refine(isStay, 'check-out is after check-in')
  .meta({ example: searchHotelsExample })

export const searchHotels = ({ booking }: HotelVendor) =>
  defineCommand('search_hotels', {
    description: 'Asks the vendor what it has in a city.',
    input,
    policy: [],
    steps: ({ city, check_in_date: check_in, check_out_date: check_out }) => [
      booking.search({ city, check_in, check_out }),
    ],
    result: ({ offers }) => ({
      offers: [...new Map(offers.map((offer) => [offer.offer_id, offer])).values()].slice(0, 100),
      rows_received: offers.length,
    }),
    task: { name: 'Search Hotels', required_inputs: Object.keys(input.shape) },
  })
