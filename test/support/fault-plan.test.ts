import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type FailpointName, faultEnv } from './fault-plan.ts'

test('a plan with an unknown failpoint, act or hit is refused where it is made', () => {
  const plan = { point: 'lane.committed', hit: 1, act: 'kill' } as const
  assert.deepEqual(JSON.parse(faultEnv([plan]).CONCORD_FAULTS), [plan])
  assert.throws(
    () => faultEnv([plan, { ...plan, point: 'commands.written' as FailpointName }]),
    /names commands\.written/,
  )
  assert.throws(() => faultEnv([{ ...plan, hit: 0 }]), { code: 'faults.plan' })
  assert.throws(() => faultEnv([{ ...plan, act: 'die' as never }]), { code: 'faults.plan' })
})
