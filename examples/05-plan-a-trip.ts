/** A trip from preferences to confirmation: remembered with consent, searched, ranked, drafted, approved and booked at an unreliable vendor. */
import assert from 'node:assert/strict'
import { listArtifacts } from '#domains/artifacts'
import type { rankOffers } from './catalog/rank-hotels.ts'
import { granted, runExample } from './run-example.ts'

/** Seed 1378: rate limits and duplicate offers; an endless answer and a short outage; booking is cut off, then gets another key's answer. */
const settings = { seed: 1378, trouble: 2 } as const
const likes = { quiet: true, breakfast: true, price_max_usd: 200 }
const stay = { check_in_date: '2026-06-01', check_out_date: '2026-06-04' }

await runExample(settings, async (stage) => {
  const { company, remember, consent, recall, submit, reachStatus, asked, answer, vendor, db } = stage
  const { ana, ben } = company.people
  /** Submits a task, waits for its end and returns its result. */
  const done = async <T>(task: string, payload: object): Promise<T> => {
    const { command } = granted(await submit(ana, { task, payload: { ...payload } }))
    const { command: ended } = await reachStatus(command.command_id, 'succeeded')
    return ended.result as T
  }
  const troubles = async (operation: string) =>
    (await vendor.books()).calls.filter((call) => call.operation === operation).map(({ trouble }) => trouble)

  const early = await remember(ana, likes)
  assert.equal(early.ok ? 'kept' : early.code, 'memory.consent.missing')
  assert.deepEqual(granted(await recall(ana)), {})
  console.log('Ana states her preferences. She has not consented to storing them, so they are not stored.')
  granted(await consent(ana))
  const kept = granted(await remember(ana, likes))
  await reachStatus(kept.command.command_id, 'succeeded')
  const wishes = granted(await recall(ana))
  assert.deepEqual(wishes, likes)
  assert.deepEqual(granted(await recall(ben)), {})
  console.log(
    'With her consent they are stored as user.travel_preferences, visible only to her: quiet, breakfast, at most 200 USD.',
  )

  const search = { city: 'Berlin', ...stay }
  const { offers, rows_received } = await done<{ offers: Parameters<typeof rankOffers>[0]; rows_received: number }>(
    'Search Hotels',
    search,
  )
  assert.deepEqual(await troubles('search'), ['rate_limited', 'repeat'])
  assert.deepEqual([rows_received, offers.length], [8, 4])
  console.log(`Search: ${(await troubles('search')).join(', ')}; ${rows_received} rows, ${offers.length} offers.`)

  const { ranked } = await done<{ ranked: ReturnType<typeof rankOffers> }>('Rank Hotels', {
    offers,
    preferences: wishes,
  })
  console.log('Rank:')
  for (const { offer_id, hotel_name, price_usd, misses } of ranked)
    console.log(
      `  ${offer_id}  ${hotel_name.padEnd(14)}${price_usd} USD${misses.length > 0 ? `  misses ${misses.join(', ')}` : ''}`,
    )
  assert.deepEqual(
    ranked.map(({ offer_id }) => offer_id),
    ['O-4', 'O-2', 'O-3', 'O-1'],
  )

  const [best, second] = ranked
  assert.ok(best && second)
  const full = granted(
    await submit(ana, {
      task: 'Draft Booking',
      payload: { booking_draft_id: 'trip-1', offer_id: best.offer_id, ...stay },
    }),
  )
  const { command: refused } = await reachStatus(full.command.command_id, 'failed')
  console.log(`Draft of ${best.hotel_name}: ${(await troubles('rooms')).join(', ')}; ${refused.error}`)
  assert.deepEqual(await troubles('rooms'), ['too_large_after', 'fail_before', 'none'])
  assert.equal(refused.error_class, 'validation_error')
  type Drafted = { draft: Record<string, string | number>; artifact_id: string }
  const { draft } = await done<Drafted>('Draft Booking', {
    booking_draft_id: 'trip-2',
    offer_id: second.offer_id,
    ...stay,
  })
  console.log(`Draft of ${second.hotel_name}: ${draft['total_price']} ${draft['currency']} for three nights.`)

  const { command: booking } = granted(await submit(ana, { task: 'Book Hotel', payload: draft }))
  await reachStatus(booking.command_id, 'waiting_for_approval')
  const questions = await asked(booking.command_id)
  assert.deepEqual(
    questions.map(({ approver }) => approver),
    ['role:booking-approver'],
  )
  assert.deepEqual(await troubles('book'), [])
  granted(await answer(ben, questions[0]?.approvalId ?? '', { decision: 'approved' }))
  await reachStatus(booking.command_id, 'succeeded')
  console.log(`Ben approves; booked: ${(await troubles('book')).join(', ')}.`)
  const { reservations } = await vendor.books()
  assert.deepEqual(
    reservations.map(({ hotel_name, key, status }) => [hotel_name, key, status]),
    [['Hotel Krone', 'book_hotel:trip-2', 'booked']],
  )
  console.log(`At the vendor: ${reservations.length} booking, of ${draft['hotel_name']}.`)

  const { items } = await listArtifacts(db, ana, { workspaceId: company.workspaceId, limit: 10 })
  const papers = items.map(({ artifact_type, status }) => `${artifact_type} ${status}`)
  assert.deepEqual(papers.toSorted(), ['booking_draft ready', 'reservation_confirmation ready'])
  console.log(`Artifacts: ${papers.toSorted().join(', ')}.`)
})
