/** Publish Report: internal destinations immediately, external ones only after the data owner approves, and never after a rejection. */
import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { examplePayloads } from './catalog/index.ts'
import { granted, runExample } from './run-example.ts'

await runExample({}, async ({ company: { people }, submit, reachStatus, asked, answer, path, folder }) => {
  const made = granted(
    await submit(people.ana, { task: 'Generate Report', payload: examplePayloads['Generate Report'] }),
  )
  const { command } = await reachStatus(made.command.command_id, 'succeeded')
  const { artifact_id, checksum } = command.result as { artifact_id: string; checksum: string }
  const publish = async (destination: string) =>
    granted(await submit(people.ana, { task: 'Publish Report', payload: { artifact_id, checksum, destination } }))
      .command.command_id
  const letters = async () => {
    const names = await readdir(join(folder, 'outbox')).catch(() => [])
    const texts = await Promise.all(names.map((name) => readFile(join(folder, 'outbox', name), 'utf8')))
    return texts.map((text) => text.slice(0, text.indexOf('\n'))).toSorted()
  }
  const onlyQuestion = async (commandId: string) => {
    const [question, ...others] = await asked(commandId)
    assert.ok(question)
    assert.deepEqual([question.approver, others], ['role:data-owner', []])
    return question.approvalId
  }

  const inside = await publish('internal')
  await reachStatus(inside, 'succeeded')
  assert.deepEqual(await letters(), ['To: internal'])
  console.log('To an internal address:')
  console.log(`  ${(await path(inside)).join(' → ')}`)

  const outside = await publish('finance@example.com')
  await reachStatus(outside, 'waiting_for_approval')
  assert.deepEqual(await letters(), ['To: internal'])
  console.log('To finance@example.com: role:data-owner must approve, and nothing is sent before the decision.')
  const question = await onlyQuestion(outside)
  for (const [name, who] of [
    ['Ana, the requester', people.ana],
    ['Ada, an administrator', people.ada],
  ] as const) {
    const decided = await answer(who, question, { decision: 'approved' })
    assert.ok(!decided.ok)
    console.log(`  ${name}, may not approve: ${decided.code}`)
  }
  granted(await answer(people.dora, question, { decision: 'approved', reason: 'Finance may have it.' }))
  console.log('  Dora, who owns the data, approves: Finance may have it.')
  await reachStatus(outside, 'succeeded')
  const gated = await path(outside)
  assert.deepEqual(gated, 'created validated waiting_for_approval approved queued running succeeded'.split(' '))
  assert.deepEqual(await letters(), ['To: finance@example.com', 'To: internal'])
  console.log(`  ${gated.join(' → ')}`)

  const refused = await publish('external:partner')
  await reachStatus(refused, 'waiting_for_approval')
  const no = { decision: 'rejected', reason: 'Not before the audit.' } as const
  granted(await answer(people.dora, await onlyQuestion(refused), no))
  const { command: ended } = await reachStatus(refused, 'failed')
  assert.equal(ended.error_class, 'approval_rejected')
  console.log('To external:partner: Dora rejects it.')
  console.log(`  ${(await path(refused)).join(' → ')} (${ended.error})`)
  const sent = await letters()
  assert.deepEqual(sent, ['To: finance@example.com', 'To: internal'])
  console.log(`Letters sent: ${sent.length}.`)
})
