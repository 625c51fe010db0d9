/** Publish Report: internal destinations immediately, external ones only after the data owner approves, and never after a rejection. */
import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { examplePayloads } from './catalog/index.ts'
import { cardOf, openExample, pathOf } from './open-example.ts'

await using example = await openExample()
const { concord, ana, dora, folder, generateReport, publishReport } = example
const { result } = await ana.wait(await ana.submit(generateReport, examplePayloads['Generate Report']))
assert.ok(result)
const { artifact_id, checksum } = result
const publish = async (destination: string) =>
  ana.wait(await ana.submit(publishReport, { artifact_id, checksum, destination }))
const countLetters = async () => (await readdir(join(folder, 'outbox'))).length

const inside = await publish('internal')
console.log('To an internal address:')
console.log(`  ${(await pathOf(ana, inside)).join(' → ')}`)

const outside = await publish('finance@example.com')
const card = await cardOf(dora, outside)
assert.deepEqual([card.approver, await countLetters()], ['role:data-owner', 1])
console.log(`To finance@example.com: ${card.approver} must approve, and nothing is sent before the decision.`)
await assert.rejects(ana.approve(card), { code: 'self_approval' })
console.log('  Ana, the requester, may not approve: self_approval')
await assert.rejects(concord.approve(card), { code: 'approvals.approver.not_asked' })
console.log('  Ada, an administrator, may not approve: approvals.approver.not_asked')
await dora.approve(card, 'Finance may have it.')
console.log('  Dora, who owns the data, approves: Finance may have it.')
assert.equal((await ana.wait(outside)).status, 'succeeded')
console.log(`  ${(await pathOf(ana, outside)).join(' → ')}`)

const refused = await publish('external:partner')
await dora.reject(await cardOf(dora, refused), 'Not before the audit.')
const { error } = await ana.wait(refused)
console.log('To external:partner: Dora rejects it.')
console.log(`  ${(await pathOf(ana, refused)).join(' → ')} (${error})`)
console.log(`Letters sent: ${await countLetters()}.`)
