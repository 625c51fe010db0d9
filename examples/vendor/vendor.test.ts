/** The vendor fails in every way it knows, the connector classifies each failure, and its ledger shows one booking. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { type ConnectorCall, ConnectorFailure } from '#domains/connectors'
import { hotelVendor } from '../catalog/hotel-vendor.ts'
import { startVendor } from './start-vendor.ts'
import { planTrouble, troubles } from './trouble.ts'

/** A minute for an answer that comes, on a busy machine; short for one that never comes. */
const patienceMs = (trouble: string | undefined) => (trouble === 'silent_after' ? 3_000 : 60_000)

/** How the connector must classify each failure: the class of the error, and whether the call may have taken effect. */
const classes: Readonly<Record<string, string>> = {
  none: 'answered',
  slow: 'answered',
  fail_before: 'transient_connector_error unknown',
  rate_limited: 'rate_limited no',
  fail_after: 'transient_connector_error unknown',
  silent_after: 'timeout unknown',
  reset_after: 'transient_connector_error unknown',
  wrong_type_after: 'transient_connector_error unknown',
  too_large_after: 'transient_connector_error unknown',
  lie_after: 'transient_connector_error unknown',
}

test('one key, every failure: the connector classifies each, and the ledger has one booking', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'concord-vendor-'))
  const seed = 5
  const plan = planTrouble(seed, troubles.length).book
  const vendor = await startVendor({ ledger: join(folder, 'ledger.sqlite'), seed, trouble: troubles.length })
  t.after(async () => {
    await vendor.close()
    await rm(folder, { recursive: true, force: true })
  })
  const { booking } = hotelVendor({ vendorUrl: vendor.url })
  const connector = booking.open({ now: () => new Date(), sleep: () => Promise.resolve() })
  const heard: string[] = []
  for (let calls = 0; calls < troubles.length; calls++) {
    const context = {
      idempotency_key: 'book_hotel:draft-1',
      signal: AbortSignal.timeout(patienceMs(plan[calls])),
      output_max_bytes: 65_536,
    }
    const input = { client_reference: 'draft-1', hotel_name: 'Hotel Adler' }
    const answer = connector.call({ capability: 'book_hotel', input, context } as unknown as ConnectorCall)
    heard.push(
      await answer.then(
        () => 'answered',
        (error: unknown) =>
          error instanceof ConnectorFailure ? `${error.errorClass} ${error.happened}` : String(error),
      ),
    )
  }
  const { calls, reservations } = await vendor.books()
  assert.deepEqual(
    heard,
    calls.map(({ trouble }) => classes[trouble]),
  )
  assert.deepEqual(new Set(calls.map(({ trouble }) => trouble)), new Set(Object.keys(classes)))
  assert.equal(reservations.length, 1)
  assert.equal(calls.filter(({ applied }) => applied === 1).length, 1)
})

test('a seed gives the same trouble every time, and other seeds another', () => {
  assert.deepEqual(planTrouble(7, 3), planTrouble(7, 3))
  const plans = new Set(Array.from({ length: 20 }, (_, seed) => JSON.stringify(planTrouble(seed, 3))))
  assert.ok(plans.size > 10)
})
