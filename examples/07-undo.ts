/** Undo: a booking that succeeded is previewed and undone by a governed command, once, last effect first. */
import assert from 'node:assert/strict'
import { examplePayloads } from './catalog/index.ts'
import { granted, runExample } from './run-example.ts'

await runExample({}, async (stage) => {
  const { company, submit, reachStatus, asked, answer, cancel, previewUndo, undo, vendor } = stage
  const { ana, ben, bo } = company.people
  const approvers = { 'role:booking-approver': ben, 'role:budget-owner': bo }
  const approve = async (commandId: string) => {
    await reachStatus(commandId, 'waiting_for_approval')
    for (const { approver, approvalId } of await asked(commandId)) {
      const person = approvers[approver as keyof typeof approvers]
      granted(await answer(person, approvalId, { decision: 'approved', reason: 'As agreed.' }))
      console.log(`  ${approver} approves`)
    }
    return reachStatus(commandId, 'succeeded')
  }

  const { command } = granted(await submit(ana, { task: 'Book Hotel', payload: examplePayloads['Book Hotel'] }))
  const id = command.command_id
  console.log('Ana books a hotel.')
  await approve(id)
  console.log(`At the vendor: ${(await vendor.books()).reservations.map(({ status }) => status).join(', ')}.`)

  const late = await cancel(ana, id, 'The trip is off.')
  assert.equal(late.ok ? '' : late.code, 'commands.cancel.succeeded')
  console.log(`Ana cancels. ${late.ok ? '' : late.reason}`)

  const preview = granted(await previewUndo(ana, id))
  console.log('The preview of its undo, last effect first:')
  for (const line of preview.undone) console.log(`  ${line.effect_type} is undone by ${line.undo}`)
  for (const line of preview.kept) console.log(`  ${line.effect_type} stays: ${line.why}`)

  const asking = granted(await undo(ana, id, 'The trip is off.'))
  console.log('Ana asks for the undo. Those who approved the booking approve it.')
  const { effects } = await approve(asking.command.command_id)
  for (const { effect_type, status } of effects.filter((effect) => effect.compensates_effect_id !== null))
    console.log(`  ${effect_type} ${status}`)
  const books = await vendor.books()
  assert.equal(books.cancellations.length, 1)
  console.log(`At the vendor: ${books.reservations.map(({ status }) => status).join(', ')}.`)

  const again = granted(await undo(ana, id, 'Really.'))
  assert.deepEqual([again.isNew, again.command.command_id], [false, asking.command.command_id])
  assert.equal((await reachStatus(id, 'succeeded')).command.status, 'succeeded')
  console.log('A second undo is answered with the first. The booking keeps its status and names its undo.')
  const refused = await undo(ana, asking.command.command_id, 'No, wait.')
  assert.equal(refused.ok ? '' : refused.code, 'commands.undo.of_undo')
  console.log(`${refused.ok ? '' : refused.reason} Ana submits the booking again instead.`)
})
