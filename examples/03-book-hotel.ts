/** Book Hotel: waits for missing input, needs two approvals, books once at an unreliable vendor, and is cancelled and compensated once. */
import assert from 'node:assert/strict'
import { examplePayloads } from './catalog/index.ts'
import { granted, runExample } from './run-example.ts'

/** Seed 1053: booking fails after it took effect, then gets another key's answer; cancelling is cut off, then the vendor is down. */
const settings = { seed: 1053, trouble: 2, paper: 'later' } as const
const BOOK = 'connector.hotel_booking.book_hotel'
const PAPER = 'connector.hotel_booking.confirmation'

await runExample(settings, async (stage) => {
  const { company, submit, supply, reach, reachStatus, asked, answer, cancel, path, countEvents, vendor } = stage
  const { ana, ben, bo } = company.people
  const { cancellation_policy_summary, ...incomplete } = examplePayloads['Book Hotel']

  const { command } = granted(await submit(ana, { task: 'Book Hotel', payload: incomplete }))
  const id = command.command_id
  await reachStatus(id, 'waiting_for_input')
  console.log('Ana books three nights for 910 USD without a cancellation policy: the command waits for it.')
  await supply(ana, id, { cancellation_policy_summary })
  await reachStatus(id, 'waiting_for_approval')

  const questions = await asked(id)
  assert.deepEqual(
    questions.map(({ approver }) => approver),
    ['role:booking-approver', 'role:budget-owner'],
  )
  console.log(`Above 500 USD two people must approve: ${questions.map(({ approver }) => approver).join(', ')}.`)
  const [booking, budget] = questions
  assert.ok(booking && budget)
  const one = granted(await answer(ben, booking.approvalId, { decision: 'approved' }))
  assert.equal(one.next, 'wait')
  assert.equal((await vendor.books()).calls.length, 0)
  console.log('  Ben approves; the command still waits, and the vendor has received no call.')
  const two = granted(await answer(bo, budget.approvalId, { decision: 'approved' }))
  assert.equal(two.next, 'run_command')
  console.log('  Bo approves; the command runs.')

  const paperIsLate = await reach(id, ({ effects }) =>
    effects.some(({ effect_type, run_after }) => effect_type === PAPER && run_after !== null),
  )
  const booked = paperIsLate.effects.find(({ effect_type }) => effect_type === BOOK)
  assert.equal(paperIsLate.command.plan?.execution_mode, 'approval_gated_async')
  assert.deepEqual([booked?.status, booked?.attempt], ['succeeded', 3])
  const before = await vendor.books()
  assert.deepEqual(
    before.calls.map(({ operation, key, trouble, applied }) => [operation, key, trouble, applied]),
    [
      ['book', 'book_hotel:draft-17', 'fail_after', 1],
      ['book', 'book_hotel:draft-17', 'lie_after', 0],
      ['book', 'book_hotel:draft-17', 'none', 0],
    ],
  )
  assert.deepEqual(
    before.reservations.map(({ status }) => status),
    ['booked'],
  )
  console.log('The vendor’s ledger:')
  for (const { operation, key, trouble, applied } of before.calls)
    console.log(`  ${operation} ${key}: ${trouble}${applied === 1 ? ', booked' : ''}`)
  console.log('Its confirmation is written at night, so the command is still running.')

  const stopped = granted(await cancel(ana, id, 'The trip is off.'))
  assert.equal(stopped.changed, true)
  await reachStatus(id, 'cancelled')
  const states = await path(id)
  assert.deepEqual(states.slice(-5), ['running', 'cancelling', 'compensating', 'compensated', 'cancelled'])
  assert.equal(await countEvents(id, 'compensation_drift'), 0)
  console.log('Ana cancels: the trip is off.')
  console.log(`  ${states.slice(-5).join(' → ')}`)

  const after = await vendor.books()
  const cancels = after.calls.filter(({ operation }) => operation === 'cancel')
  for (const { operation, trouble, applied } of cancels)
    console.log(`  ${operation}: ${trouble}${applied === 1 ? ', cancelled' : ''}`)
  assert.deepEqual(
    cancels.map(({ trouble, applied }) => [trouble, applied]),
    [
      ['reset_after', 1],
      ['fail_before', 0],
      ['none', 0],
    ],
  )
  assert.equal(new Set(cancels.map(({ key }) => key)).size, 1)
  assert.deepEqual(
    after.reservations.map(({ status }) => status),
    ['cancelled'],
  )
  assert.equal(after.cancellations.length, 1)
  console.log(
    `At the vendor: ${after.reservations.length} booking, ${after.cancellations.length} cancellation, ${after.calls.length} calls.`,
  )
  const late = granted(await cancel(ana, id, 'Really.'))
  assert.equal(late.changed, false)
  console.log('A second cancellation changes nothing.')
})
