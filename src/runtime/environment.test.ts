import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { decideEnvironment, inEnvironment, queueIn, queueOutOf, queuesIn } from './environment.ts'
import { decideQueue, semanticQueues } from './queues.ts'
import { openReferenceRuntime } from '#test/reference-runtime/index'

const names = fc.stringMatching(/^[a-z][a-z0-9]{0,31}$/)
const queue = fc.constantFrom(...Object.keys(semanticQueues))

test('[OQ-10] a queue of an environment has a valid and unique name that splits into its parts', () => {
  fc.assert(
    fc.property(names, names, queue, queue, (one, other, first, second) => {
      const name = queueIn(one, first)
      assert.equal(decideQueue(name, {}).ok, true)
      assert.equal(queueOutOf(one, name), first)
      assert.equal(name === queueIn(other, second), one === other && first === second)
      if (one !== other) assert.equal(queueOutOf(other, name), name)
    }),
  )
})

test('[OQ-10] an adapter gets every semantic queue under its prefixed name, with the limits of this environment', () => {
  const { queues, only } = queuesIn('staging', { connector_calls: { concurrency: 2 } })
  assert.deepEqual(
    Object.keys(queues),
    Object.keys(semanticQueues).map((name) => `staging__${name}`),
  )
  assert.deepEqual(queues['staging__connector_calls'], { concurrency: 2 })
  assert.deepEqual(queues['staging__agent_runs'], semanticQueues['agent_runs'])
  assert.deepEqual(only, [...Object.keys(queues), 'scheduled_maintenance'])
})

test('[OQ-10] without an environment nothing is renamed', () => {
  const limits = { connector_calls: { concurrency: 2 } }
  assert.deepEqual(queuesIn(undefined, limits), { queues: limits, only: undefined })
  const runtime = openReferenceRuntime({ random: () => 0.5 })
  assert.equal(inEnvironment(runtime, undefined), runtime)
})

test('[OQ-10] a process that is aborted before its first turn resumes in a queue of its environment', async () => {
  const engine = openReferenceRuntime({ random: () => 0.5 })
  const { queues, only } = queuesIn('staging', {})
  for (const [name, spec] of Object.entries(queues)) await engine.defineQueue(name, spec)
  const runtime = inEnvironment(engine, 'staging')
  const [one, other] = [
    { kind: 'job', id: 'one' },
    { kind: 'job', id: 'other' },
  ]
  await runtime.abort(one, 'stop')
  await runtime.abort(other, 'stop', { queue: 'connector_calls' })
  const found = [await engine.describe(one), await engine.describe(other)].map((view) => view?.queue ?? '')
  assert.deepEqual(found, ['staging__concord_default', 'staging__connector_calls'])
  assert.ok(found.every((name) => only?.includes(name)))
})

for (const name of ['', 'Staging', 'my_staging', '1st', 'a'.repeat(33), 'x y'])
  test(`${JSON.stringify(name)} is not an environment name`, () => {
    const decided = decideEnvironment(name)
    assert.equal(decided.ok ? '' : decided.code, 'runtime.environment.invalid')
  })

test('[OQ-10] a schedule without a queue fires in its own environment, whichever worker decides its due times', async () => {
  const engine = openReferenceRuntime({ random: () => 0.5 })
  for (const [name, spec] of Object.entries(queuesIn('staging', {}).queues)) await engine.defineQueue(name, spec)
  const runtime = inEnvironment(engine, 'staging')
  runtime.register('job', async () => ({ t: 'done' }), { queue: 'connector_calls' })
  const spec = { name: 'hourly', cron: '0 * * * *', overlap: 'allow', missed: 'skip', kind: 'job' } as const
  assert.equal((await runtime.schedule(spec)).ok, true)
  assert.equal((await engine.describeSchedule('hourly'))?.spec.queue, 'staging__connector_calls')
})
