/** Book Hotel: waits for missing input, needs two approvals, books once at an unreliable vendor, and is cancelled and compensated once. */
import assert from 'node:assert/strict'
import { examplePayloads } from './catalog/index.ts'
import { cardOf, dataOf, effectsOf, eventually, openExample, pathOf } from './open-example.ts'

/** Seed 1053: booking fails after it took effect, then gets another key's answer; cancelling is cut off, then the vendor is down. */
await using example = await openExample({ seed: 1053, trouble: 2, confirmation: 'later' })
const { ana, ben, bo, vendor } = example
const { cancellation_policy_summary, ...incomplete } = examplePayloads['Book Hotel']
const body = { task_name: 'Book Hotel', payload: incomplete }
const { command_id } = dataOf(await ana.api.POST('/commands', { body }))
assert.equal((await ana.wait(command_id)).status, 'waiting_for_input')
console.log('Ana books three nights for 910 USD without a cancellation policy: the command waits for it.')
const params = { path: { command_id } }
dataOf(await ana.api.POST('/commands/{command_id}/input', { params, body: { input: { cancellation_policy_summary } } }))
const asked = await ana.wait(command_id)

const [first, second] = [await cardOf(ben, asked), await cardOf(bo, asked)]
console.log(`Above 500 USD two people must approve: ${first.approver}, ${second.approver}.`)
await ben.approve(first)
assert.deepEqual([(await ana.wait(asked)).status, (await vendor.books()).calls], ['waiting_for_approval', []])
console.log('  Ben approves; the command still waits, and the vendor has received no call.')
await bo.approve(second)
console.log('  Bo approves; the command runs.')

const isLate = ({ effect_type, run_after }: { effect_type: string; run_after: string | null }) =>
  effect_type === 'connector.hotel_booking.confirmation' && run_after !== null
await eventually(async () => (await effectsOf(ana, asked)).find(isLate))
console.log('The vendor’s ledger:')
for (const { operation, key, trouble, applied } of (await vendor.books()).calls)
  console.log(`  ${operation} ${key}: ${trouble}${applied === 1 ? ', booked' : ''}`)
console.log('Its confirmation is written at night, so the command is still running.')

await ana.cancel(asked, 'The trip is off.')
await ana.wait(asked)
console.log('Ana cancels: the trip is off.')
console.log(`  ${(await pathOf(ana, asked)).slice(-5).join(' → ')}`)
const { calls, reservations, cancellations } = await vendor.books()
const cancels = calls.filter(({ operation }) => operation === 'cancel')
for (const { operation, trouble, applied } of cancels)
  console.log(`  ${operation}: ${trouble}${applied === 1 ? ', cancelled' : ''}`)
assert.equal(new Set(cancels.map(({ key }) => key)).size, 1)
const count = `${reservations.length} booking, ${cancellations.length} cancellation, ${calls.length} calls`
console.log(`At the vendor: ${count}.`)
await ana.cancel(asked, 'Really.')
assert.equal((await vendor.books()).calls.length, calls.length)
console.log('A second cancellation changes nothing.')
