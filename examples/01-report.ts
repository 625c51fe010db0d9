/** Generate Report: submitted twice, executed once, with every state recorded. */
import assert from 'node:assert/strict'
import { getArtifact, readArtifactText } from '#domains/artifacts'
import { examplePayloads } from './catalog/index.ts'
import { granted, runExample } from './run-example.ts'

await runExample({}, async ({ artifacts, company: { people, workspaceId }, submit, reachStatus, path }) => {
  const asking = { task: 'Generate Report', payload: examplePayloads['Generate Report'] }
  const first = granted(await submit(people.ana, asking))
  const again = granted(await submit(people.ana, asking))
  assert.equal(again.command.command_id, first.command.command_id)
  assert.deepEqual([first.isNew, again.isNew], [true, false])
  console.log('Ana requests the revenue report for May twice.')
  console.log(`  one command with the key ${first.command.contract_key}`)

  const { command, effects } = await reachStatus(first.command.command_id, 'succeeded')
  const states = await path(command.command_id)
  assert.deepEqual(states, ['created', 'validated', 'queued', 'running', 'succeeded'])
  console.log(`  ${states.join(' → ')}`)

  const result = command.result as { artifact_id: string; checksum: string }
  const report = granted(await getArtifact(artifacts.db, people.ana, workspaceId, result.artifact_id))
  const text = granted(await readArtifactText(artifacts, report))
  assert.equal(report.checksum, result.checksum)
  assert.deepEqual([report.status, report.lineage.command_id], ['ready', command.command_id])
  const { artifact_type, version, size_bytes, checksum } = report
  console.log(`The artifact: ${artifact_type}, version ${version}, ${size_bytes} bytes, ${checksum.slice(0, 19)}…:`)
  console.log(text.trimEnd().replace(/^/gm, '  '))

  console.log('Its effects:')
  for (const { effect_type, status } of effects) console.log(`  ${effect_type} ${status}`)
  assert.deepEqual(
    effects.map(({ effect_type, status }) => [effect_type, status]),
    [
      ['artifact.report', 'succeeded'],
      ['notification.app', 'succeeded'],
    ],
  )

  const malformed = granted(
    await submit(people.ana, { task: 'Generate Report', payload: { ...asking.payload, date_range: 'May' } }),
  )
  const refused = await reachStatus(malformed.command.command_id, 'failed')
  assert.equal(refused.command.error_class, 'malformed_payload')
  assert.equal(refused.effects.length, 0)
  console.log(`A request for "May" fails as ${refused.command.error_class}: ${refused.command.error}`)
})
