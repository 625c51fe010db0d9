/** Fault points: off unless planned, at the planned passage only, and a plan with a mistake is refused. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { InjectedFault, openFailpoints, parsePlan, failpoint } from './failpoints.ts'

test('without a plan a point does nothing', () => {
  assert.equal(failpoint('lane.committed'), undefined)
})

test('a fault fires at its passage and at no other', async () => {
  const pass = openFailpoints([{ point: 'lane.committed', hit: 2, act: 'throw' }])
  await pass('lane.committed')
  await pass('lane.batch_taken')
  await assert.rejects(pass('lane.committed'), InjectedFault)
  await pass('lane.committed')
})

test('a plan with an unknown point, act or hit is refused', () => {
  const good = { point: 'lane.committed', hit: 1, act: 'kill' }
  assert.equal(parsePlan(JSON.stringify([good])).length, 1)
  for (const wrong of [
    { ...good, point: 'lane.commit' },
    { ...good, act: 'explode' },
    { ...good, hit: 0 },
    { ...good, hit: 1.5 },
    { ...good, together: 0 },
  ]) {
    assert.throws(() => parsePlan(JSON.stringify([wrong])), { code: 'faults.plan' })
  }
  assert.throws(() => parsePlan('{}'), { code: 'faults.plan' })
})

test('a kill takes the process at that point, and the passage is on file', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'concord-points-'))
  const cover = path.join(folder, 'cover')
  const module = fileURLToPath(new URL('./failpoints.ts', import.meta.url))
  const program = `const { failpoint } = await import(${JSON.stringify(module)}); await failpoint('lane.committed'); await failpoint('lane.committed'); console.log('alive')`
  const { signal, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
    env: {
      ...process.env,
      CONCORD_FAULTS: JSON.stringify([{ point: 'lane.committed', hit: 2, act: 'kill' }]),
      CONCORD_FAULTS_COVER: cover,
    },
  })
  assert.equal(signal, 'SIGKILL')
  assert.equal(stdout, '')
  assert.equal(readFileSync(cover, 'utf8'), 'lane.committed\nlane.committed\n')
  rmSync(folder, { recursive: true })
})

test('a kill of several together holds each where it is until all are there, and says how many it took', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'concord-points-'))
  const cover = path.join(folder, 'cover')
  const module = fileURLToPath(new URL('./failpoints.ts', import.meta.url))
  const program = `const { failpoint } = await import(${JSON.stringify(module)})
    const pass = async (n) => { await failpoint('lane.committed'); console.log('passed', n) }
    for (let n = 1; n <= 4; n++) void pass(n)
    await new Promise((resolve) => setTimeout(resolve, 200))
    void pass(5)
    await new Promise(() => {})`
  const { signal, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
    env: {
      ...process.env,
      CONCORD_FAULTS: JSON.stringify([{ point: 'lane.committed', hit: 3, act: 'kill', together: 3 }]),
      CONCORD_FAULTS_COVER: cover,
    },
  })
  assert.equal(signal, 'SIGKILL')
  assert.equal(stdout, 'passed 1\npassed 2\n')
  assert.equal(readFileSync(cover, 'utf8').split('\n').at(-2), 'lane.committed cut 3')
  rmSync(folder, { recursive: true })
})
