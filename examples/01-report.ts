/** Generate Report: submitted twice, executed once, with every state recorded. */
import assert from 'node:assert/strict'
import { examplePayloads } from './catalog/index.ts'
import { dataOf, effectsOf, eventsOf, openExample, pathOf } from './open-example.ts'

await using example = await openExample()
const { ana, generateReport } = example
const payload = examplePayloads['Generate Report']
const first = await ana.submit(generateReport, payload)
assert.equal((await ana.submit(generateReport, payload)).command_id, first.command_id)
console.log('Ana requests the revenue report for May twice.')
const { result } = await ana.wait(first)
assert.ok(result)
const [created] = await eventsOf(ana, first)
console.log(`  one command with the key ${String(created?.payload['contract_key'])}`)
console.log(`  ${(await pathOf(ana, first)).join(' → ')}`)

const params = { path: { artifact_id: result.artifact_id } }
const { artifact_type, version, size_bytes, checksum } = dataOf(
  await ana.api.GET('/artifacts/{artifact_id}', { params }),
)
assert.equal(checksum, result.checksum)
console.log(`The artifact: ${artifact_type}, version ${version}, ${size_bytes} bytes, ${checksum.slice(0, 19)}…:`)
console.log(result.text.trimEnd().replace(/^/gm, '  '))
console.log('Its effects:')
for (const { effect_type, status } of await effectsOf(ana, first)) console.log(`  ${effect_type} ${status}`)

const refused = await ana.wait(await ana.submit(generateReport, { ...payload, date_range: 'May' }))
assert.deepEqual(await effectsOf(ana, refused), [])
console.log(`A request for "May" fails as ${refused.error_class}: ${refused.error}`)
