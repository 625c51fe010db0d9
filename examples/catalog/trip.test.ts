/** The tasks of a trip: their required names, the order of offers, and the terms of the memory. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { expandCatalog } from '#domains/commands'
import { openMemorySchemas } from '#domains/memory'
import { nightsOf } from './draft-booking.ts'
import { exampleCatalog, travelPreferences } from './index.ts'
import { rankOffers } from './rank-hotels.ts'

const { catalog, connectors } = expandCatalog(exampleCatalog({ vendorUrl: 'http://127.0.0.1:1', folder: '/nowhere' }))

test('[EXM-09] hotel_booking searches, books and cancels, and is agreed to as hotel_booking_approval; nothing goes by another name', () => {
  const [booking] = connectors.filter(({ name }) => name === 'hotel_booking')
  assert.deepEqual(
    booking?.operations.map(({ name, compensation }) => [name, compensation?.operation]),
    [
      ['search', undefined],
      ['book_hotel', 'cancel'],
      ['cancel', undefined],
      ['confirmation', undefined],
    ],
  )
  // Every command that may book needs an approval of this type.
  const books = catalog.flatMap((each) =>
    each.kind === 'command_type' && each.side_effects.includes('connector.hotel_booking.book_hotel') ? [each] : [],
  )
  assert.deepEqual(
    books.map(({ approval }) => [approval.required, approval.approval_type]),
    [[true, 'hotel_booking_approval']],
  )
})

test('travel preferences are kept with consent, about the user who has them, for a year', () => {
  assert.equal(openMemorySchemas([travelPreferences]).ok, true)
  const { name, subject_type, consent, visibility, expiration } = travelPreferences
  assert.deepEqual(
    { name, subject_type, consent, visibility, expiration },
    {
      name: 'user.travel_preferences',
      subject_type: 'user',
      consent: { required: true },
      visibility: ['user'],
      expiration: { after_days: 365 },
    },
  )
})

const anOffer = fc.record({
  offer_id: fc.stringMatching(/^O-\d{1,3}$/),
  city: fc.constant('Berlin'),
  hotel_name: fc.constant('Hotel'),
  price_usd: fc.integer({ min: 0, max: 400 }),
  quiet: fc.boolean(),
  breakfast: fc.boolean(),
})
const offers = fc.uniqueArray(anOffer, { selector: ({ offer_id }) => offer_id, maxLength: 12 })
const wishes = fc.record(
  { quiet: fc.boolean(), breakfast: fc.boolean(), price_max_usd: fc.integer({ min: 0, max: 400 }) },
  { requiredKeys: [] },
)

test('ranking keeps every offer, goes by misses and then by price, and does not depend on the order they came in', () => {
  fc.assert(
    fc.property(offers, wishes, (given, likes) => {
      const ranked = rankOffers(given, likes)
      assert.deepEqual(rankOffers(given.toReversed(), likes), ranked)
      assert.equal(new Set(ranked.map(({ offer_id }) => offer_id)).size, given.length)
      for (const [at, { misses, price_usd }] of ranked.entries()) {
        const next = ranked[at + 1]
        if (!next) continue
        assert.ok(misses.length <= next.misses.length)
        if (misses.length === next.misses.length) assert.ok(price_usd <= next.price_usd)
      }
    }),
  )
})

test('nights are days of the calendar, also over the night on which the clocks change', () => {
  assert.deepEqual([nightsOf('2026-06-01', '2026-06-04'), nightsOf('2026-03-28', '2026-03-30')], [3, 2])
})
