/** The test kit of a project: calls that are recorded, providers that misbehave, people, and a clock that the test moves. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { allow, ask, defineCommand, defineEffect, defineSchedule } from '#domains/commands'
import { until } from '#test/until'
import { openTestConcord, type TestConcord } from '#testing'

const pay = defineEffect('payments.refund', {
  input: z.object({ order_id: z.string(), amount: z.number() }),
  class: 'keyed',
  do: ({ input }) => Promise.resolve({ refund_id: `re_${input.order_id}` }),
  undo: () => Promise.resolve({}),
})
const refund = defineCommand('refund', {
  input: z.object({ order_id: z.string(), amount: z.number().positive() }),
  key: ({ order_id }) => `refund:${order_id}`,
  policy: ({ amount }) => (amount >= 50 ? ask(1, 'refund-approver') : allow()),
  steps: (input) => [pay(input)],
})
const nightly = defineSchedule({
  name: 'nightly-refund',
  command_type: 'refund',
  cron: '0 3 * * *',
  queue: 'concord_default',
  payload: { order_id: 'nightly', amount: 1 },
})

describe('openTestConcord', () => {
  let concord: TestConcord
  before(async () => {
    concord = await openTestConcord({ project: { catalog: [refund, nightly] } })
  })
  after(() => concord.close())

  test('records the calls, and people decide', async () => {
    const dora = await concord.person('dora', 'refund-approver')
    const asked = await concord.wait(await concord.submit(refund, { order_id: 'o1', amount: 60 }))
    assert.equal(asked.status, 'waiting_for_approval')
    assert.equal(concord.calls.length, 0)
    const [card] = await dora.inbox(asked)
    assert.ok(card)
    await dora.approve(card)
    assert.equal((await concord.wait(asked, { timeoutMs: 15_000 })).result?.refund_id, 're_o1')
    const [call] = concord.calls.splice(0)
    assert.deepEqual([call?.effect, call?.input], ['payments.refund', { order_id: 'o1', amount: 60 }])
  })

  test('a wrong name of an effect is refused', () => {
    assert.throws(() => concord.misbehave('payments.refnd'), /there are .*payments\.refund/)
  })

  test('a retry runs when the clock is moved, with the same key', async () => {
    concord.misbehave('payments.refund', { after: true })
    concord.misbehave('payments.refund', { errorClass: 'rate_limited' })
    const asked = await concord.submit(refund, { order_id: 'o2', amount: 5 })
    for (let minutes = 0; minutes < 30; minutes += 5) {
      const { status } = await concord.get(asked)
      if (status === 'succeeded') break
      await concord.clock.advance(300_000)
      await new Promise((resolve) => void setTimeout(resolve, 50))
    }
    assert.equal((await concord.wait(asked, { timeoutMs: 15_000 })).status, 'succeeded')
    const calls = concord.calls.splice(0)
    assert.deepEqual(
      calls.map(({ attempt }) => attempt),
      [1, 3],
    )
    assert.equal(new Set(calls.map(({ key }) => key)).size, 1)
  })

  test('an approval that nobody answers expires when the clock is moved', async () => {
    const asked = await concord.wait(await concord.submit(refund, { order_id: 'o3', amount: 60 }))
    await concord.clock.advance(25 * 3_600_000)
    await until(async () => (await concord.get(asked)).status !== 'waiting_for_approval')
    assert.equal((await concord.wait(asked, { timeoutMs: 15_000 })).status, 'expired')
    assert.equal(concord.calls.filter(({ input }) => input['order_id'] === 'o3').length, 0)
  })

  test('a schedule fires when its time has come', async () => {
    await concord.clock.advance(24 * 3_600_000)
    await until(() => concord.calls.some(({ input }) => input['order_id'] === 'nightly'))
  })
})
