/** Rank Hotels: returns the given offers, best first. It calls nobody and fits into the time of a request. */
import { z } from 'zod'
import { defineCommandType, type Definition, defineEffect, defineFunction, defineTask } from '#domains/commands'
import { hotelOffer, type HotelOffer, OFFERS_MAX } from './hotel-offer.ts'
import { type HotelPreferences, hotelPreferences } from './travel-preferences.ts'

export const rankHotelsExample = {
  offers: [
    { offer_id: 'O-1', city: 'Berlin', hotel_name: 'Hotel Adler', price_usd: 310, quiet: false, breakfast: true },
    { offer_id: 'O-2', city: 'Berlin', hotel_name: 'Hotel Krone', price_usd: 150, quiet: true, breakfast: true },
  ],
  preferences: { quiet: true, price_max_usd: 200 },
}

const payload = z
  .strictObject({ offers: z.array(hotelOffer).min(1).max(OFFERS_MAX), preferences: hotelPreferences })
  .meta({ example: rankHotelsExample })

const EFFECT = 'hotel.rank_offers'

export type RankedOffer = HotelOffer & { readonly misses: readonly string[] }

/** Sorts by unmet wishes, then by price, then by id, so that the same offers give the same order. Pure. */
export function rankOffers(offers: readonly HotelOffer[], wishes: HotelPreferences): readonly RankedOffer[] {
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

export function rankHotels(): readonly Definition[] {
  return [
    defineEffect({
      effect_type: EFFECT,
      class: 'read',
      bounded: true,
      async do({ payload: asked }) {
        const { offers, preferences } = payload.parse(asked)
        return { ranked: rankOffers(offers, preferences) }
      },
    }),
    defineFunction({ name: 'rank_hotels', plan: (asked) => [{ effect_type: EFFECT, payload: asked }] }),
    defineCommandType({
      name: 'rank_hotels',
      description: 'Sorts offers by the preferences of a person.',
      payload,
      side_effects: [EFFECT],
      error_classes: ['policy_denied', 'malformed_payload', 'internal_error'],
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created', 'policy_evaluated', 'plan_created', 'effect_executed'],
    }),
    defineTask({
      name: 'Rank Hotels',
      description: 'Offers, best first.',
      command_type: 'rank_hotels',
      function_name: 'rank_hotels',
      ingress_types: ['user_request', 'agent_action'],
      required_inputs: ['offers', 'preferences'],
      sync_allowed: true,
      policy_checks: ['permission'],
    }),
  ]
}
