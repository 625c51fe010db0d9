/** Rank Hotels: returns the given offers, best first. It makes no call and fits into the time of a request. */
import { defineCommand, defineEffect } from '@concordhq/concord'
import { z } from 'zod'
import { hotelOffer } from './hotel-vendor.ts'
import { type HotelPreferences, hotelPreferences } from './travel-preferences.ts'

type HotelOffer = z.infer<typeof hotelOffer>

export const rankHotelsExample = {
  offers: [
    { offer_id: 'O-1', city: 'Berlin', hotel_name: 'Hotel Adler', price_usd: 310, quiet: false, breakfast: true },
    { offer_id: 'O-2', city: 'Berlin', hotel_name: 'Hotel Krone', price_usd: 150, quiet: true, breakfast: true },
  ],
  preferences: { quiet: true, price_max_usd: 200 },
}

const input = z.strictObject({ offers: z.array(hotelOffer).min(1).max(100), preferences: hotelPreferences })

/** Sorts by unmet wishes, then by price, then by id, so that the same offers give the same order. */
export function rankOffers(offers: readonly HotelOffer[], wishes: HotelPreferences) {
  const { quiet = false, breakfast = false, price_max_usd = Number.POSITIVE_INFINITY } = wishes
  const missesOf = (offer: HotelOffer) => [
    ...(quiet && !offer.quiet ? ['quiet'] : []),
    ...(breakfast && !offer.breakfast ? ['breakfast'] : []),
    ...(offer.price_usd > price_max_usd ? ['price_max_usd'] : []),
  ]
  return offers
    .map((offer) => ({ ...offer, misses: missesOf(offer) }))
    .toSorted(
      (a, b) => a.misses.length - b.misses.length || a.price_usd - b.price_usd || (a.offer_id < b.offer_id ? -1 : 1),
    )
}

const rank = defineEffect('hotel.rank_offers', {
  input,
  class: 'read',
  bounded: true,
  do: ({ input: { offers, preferences } }) => Promise.resolve({ ranked: rankOffers(offers, preferences) }),
})

export const rankHotels = defineCommand('rank_hotels', {
  description: 'Sorts offers by the preferences of a person.',
  input: input.meta({ example: rankHotelsExample }),
  policy: [],
  steps: (asked) => [rank(asked)],
  task: { name: 'Rank Hotels', required_inputs: ['offers', 'preferences'] },
})
