import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { openCatalog, anyHost, shippedPolicies } from '#domains/commands'
import { spawnDefinitions } from './spawn-subagent.ts'
import { swarmDefinitions } from './swarm-effect.ts'

const folder = new URL('./', import.meta.url)

test('[SWM-02] a swarm is composed: no file of it reaches an engine, a queue of its own, a timer, a provider or a process', async () => {
  const files = (await readdir(folder)).filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
  assert.ok(files.length >= 10)
  for (const name of files) {
    const text = await readFile(new URL(name, folder), 'utf8')
    const imports = [...text.matchAll(/from '([^']+)'/g)].map(([, from]) => from ?? '')
    const allowed =
      /^(?:#(?:kernel|contract|store|runtime|turns|domains\/(?:commands|approvals|artifacts|budgets|memory))(?:\/|$)|\.\.?\/|zod$|node:crypto$)/
    assert.deepEqual(
      imports.filter((from) => !allowed.test(from)),
      [],
      name,
    )
    assert.doesNotMatch(text, /setTimeout|setInterval|Promise\.race|connectors\b.*\.call\(|runtime\.register/, name)
  }
})

test('[SWM-02] starting a swarm and a spawn are ordinary effects with an undo, planned by a function and decided by policy', () => {
  const never = () => assert.fail('nothing runs')
  const opened = openCatalog([...shippedPolicies, ...spawnDefinitions(never), ...swarmDefinitions(never)], anyHost)
  assert.ok(opened.ok, JSON.stringify(opened))
  assert.deepEqual([...opened.value.tasks.keys()], ['Spawn Subagent'])
  assert.ok(opened.value.undos.has('agent.spawn_undo') && opened.value.undos.has('swarm.undo'))
})
