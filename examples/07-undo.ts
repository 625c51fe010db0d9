/** Undo: a booking that succeeded is previewed and undone by a governed command, once, last effect first. */
import assert from 'node:assert/strict'
import type { ConcordError } from '@concordhq/concord/client'
import { examplePayloads } from './catalog/index.ts'
import { cardOf, dataOf, effectsOf, openExample } from './open-example.ts'

await using example = await openExample()
const { ana, ben, bo, vendor, bookHotel } = example
async function approve(command: { command_id: string }) {
  await ana.wait(command.command_id)
  for (const person of [ben, bo]) {
    const card = await cardOf(person, command)
    await person.approve(card, 'As agreed.')
    console.log(`  ${card.approver} approves`)
  }
  assert.equal((await ana.wait(command.command_id)).status, 'succeeded')
  return (await vendor.books()).reservations.map(({ status }) => status).join(', ')
}
const refusalOf = (asked: Promise<unknown>) =>
  asked.then(
    () => assert.fail('It was not refused.'),
    ({ message, hint = '' }: ConcordError) => message.replace(hint, '').trim(),
  )

const booking = await ana.submit(bookHotel, examplePayloads['Book Hotel'])
console.log('Ana books a hotel.')
console.log(`At the vendor: ${await approve(booking)}.`)
console.log(`Ana cancels. ${await refusalOf(ana.cancel(booking, 'The trip is off.'))}`)

const params = { path: { command_id: booking.command_id } }
const preview = dataOf(await ana.api.GET('/commands/{command_id}/undo', { params }))
console.log('The preview of its undo, last effect first:')
for (const { effect_type, undo } of preview.undone) console.log(`  ${effect_type} is undone by ${undo}`)
for (const { effect_type, why } of preview.kept) console.log(`  ${effect_type} stays: ${why}`)

const undo = await ana.undo(booking, 'The trip is off.')
console.log('Ana asks for the undo. Those who approved the booking approve it.')
const left = await approve(undo)
for (const { effect_type, status, compensates_effect_id } of await effectsOf(ana, undo))
  if (compensates_effect_id !== null) console.log(`  ${effect_type} ${status}`)
console.log(`At the vendor: ${left}.`)
assert.equal((await ana.undo(booking, 'Really.')).command_id, undo.command_id)
assert.equal((await ana.get(booking)).undo?.command_id, undo.command_id)
console.log('A second undo is answered with the first. The booking keeps its status and names its undo.')
console.log(`${await refusalOf(ana.undo(undo, 'No, wait.'))} Ana submits the booking again instead.`)
