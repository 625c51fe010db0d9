/** A trip from preferences to confirmation: remembered with consent, searched, ranked, drafted, approved and booked at an unreliable vendor. */
import assert from 'node:assert/strict'
import type { CommandRef } from '@concordhq/concord/client'
import { cardOf, dataOf, openExample } from './open-example.ts'

/** Seed 1378: rate limits and duplicate offers; an endless answer and a short outage; booking is cut off, then gets another key's answer. */
await using example = await openExample({ seed: 1378, trouble: 2 })
const { ana, ben, vendor, searchHotels, rankHotels, draftBooking, bookHotel } = example
const stay = { check_in_date: '2026-06-01', check_out_date: '2026-06-04' }
const run = async <Input extends object, Result>(command: CommandRef<Input, Result>, input: Input) => {
  const { result, error } = await ana.wait(await ana.submit(command, input))
  return result ?? assert.fail(error ?? '')
}
const troubles = async (operation: string) =>
  (await vendor.books()).calls.flatMap((call) => (call.operation === operation ? call.trouble : [])).join(', ')

const { user_id } = dataOf(await ana.api.GET('/me'))
const about = { subject: `user:${user_id}`, memory_type: 'preference', scope: 'user' } as const
const preferences = { quiet: true, breakfast: true, price_max_usd: 200 }
const schema_name = 'user.travel_preferences'
const remember = () => ana.api.POST('/memory', { body: { ...about, schema_name, confidence: 1, content: preferences } })
assert.equal((await remember()).error?.code, 'memory.consent.missing')
console.log('Ana states her preferences. She has not consented to storing them, so they are not stored.')
dataOf(await ana.api.POST('/memory/consents', { body: about }))
await ana.wait(dataOf(await remember()).command_id)
const params = { query: { subject: about.subject } }
const [wishes] = dataOf(await ana.api.GET('/memory', { params })).items
assert.deepEqual(wishes?.content, preferences)
assert.deepEqual(dataOf(await ben.api.GET('/memory', { params })).items, [])
console.log(
  `With her consent they are stored as ${schema_name}, visible only to her: quiet, breakfast, at most 200 USD.`,
)

const { offers, rows_received } = await run(searchHotels, { city: 'Berlin', ...stay })
console.log(`Search: ${await troubles('search')}; ${rows_received} rows, ${offers.length} offers.`)
const { ranked } = await run(rankHotels, { offers, preferences })
console.log('Rank:')
for (const { offer_id, hotel_name, price_usd, misses } of ranked) {
  const missing = misses.length > 0 ? `  misses ${misses.join(', ')}` : ''
  console.log(`  ${offer_id}  ${hotel_name.padEnd(14)}${price_usd} USD${missing}`)
}

const [best, second] = ranked
assert.ok(best && second)
const full = { booking_draft_id: 'trip-1', offer_id: best.offer_id, ...stay }
const { error } = await ana.wait(await ana.submit(draftBooking, full))
console.log(`Draft of ${best.hotel_name}: ${await troubles('rooms')}; ${error}`)
const { draft } = await run(draftBooking, { ...full, booking_draft_id: 'trip-2', offer_id: second.offer_id })
console.log(`Draft of ${second.hotel_name}: ${draft.total_price} ${draft.currency} for three nights.`)

const booking = await ana.wait(await ana.submit(bookHotel, draft))
assert.equal(await troubles('book'), '')
await ben.approve(await cardOf(ben, booking))
await ana.wait(booking)
console.log(`Ben approves; booked: ${await troubles('book')}.`)
const { reservations } = await vendor.books()
console.log(`At the vendor: ${reservations.length} booking, of ${reservations[0]?.hotel_name}.`)
const { items } = dataOf(await ana.api.GET('/artifacts'))
const artifacts = items.map(({ artifact_type, status }) => `${artifact_type} ${status}`)
console.log(`Artifacts: ${artifacts.toSorted().join(', ')}.`)
