/** The vendor's offers, with fixed rooms and prices; failures are injected elsewhere. */

export type VendorOffer = {
  readonly offer_id: string
  readonly city: string
  readonly hotel_name: string
  readonly price_usd: number
  readonly quiet: boolean
  readonly breakfast: boolean
}

const offers: readonly (VendorOffer & { readonly rooms: number })[] = [
  {
    offer_id: 'O-1',
    city: 'Berlin',
    hotel_name: 'Hotel Adler',
    price_usd: 310,
    quiet: false,
    breakfast: true,
    rooms: 4,
  },
  {
    offer_id: 'O-2',
    city: 'Berlin',
    hotel_name: 'Hotel Krone',
    price_usd: 150,
    quiet: true,
    breakfast: true,
    rooms: 2,
  },
  {
    offer_id: 'O-3',
    city: 'Berlin',
    hotel_name: 'Pension Linde',
    price_usd: 120,
    quiet: false,
    breakfast: false,
    rooms: 1,
  },
  { offer_id: 'O-4', city: 'Berlin', hotel_name: 'Haus Birke', price_usd: 140, quiet: true, breakfast: true, rooms: 0 },
  {
    offer_id: 'O-5',
    city: 'Hamburg',
    hotel_name: 'Hotel Anker',
    price_usd: 90,
    quiet: true,
    breakfast: true,
    rooms: 9,
  },
]
const CANCELLATION_POLICY = 'Free of charge until two days before arrival.'

/** Includes full hotels: a search does not check rooms. */
export function listOffers(city: string): readonly VendorOffer[] {
  return offers.filter((offer) => offer.city === city).map(({ rooms: _rooms, ...offer }) => offer)
}

/** Returns undefined without such an offer. */
export function findRooms(offerId: string) {
  const found = offers.find(({ offer_id }) => offer_id === offerId)
  return found && { ...found, cancellation_policy_summary: CANCELLATION_POLICY }
}
