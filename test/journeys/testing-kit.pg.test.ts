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
const letter = defineEffect('letters.post', {
  input: z.object({ to: z.string() }),
  class: 'opaque',
  do: () => Promise.resolve({}),
})
const post = defineCommand('post', {
  input: z.object({ to: z.string() }),
  policy: () => allow(),
  steps: (input) => [letter(input)],
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
    concord = await openTestConcord({ project: { catalog: [refund, post, nightly] } })
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

  test('the metrics show what is open, what waits for people, and what was retried', async () => {
    await concord.wait(await concord.submit(refund, { order_id: 'o4', amount: 60 }))
    concord.misbehave('letters.post', { after: true })
    const doubtful = await concord.submit(post, { to: 'dora' })
    await until(async () => (await concord.get(doubtful)).status === 'blocked')
    const answer = await concord.fetch(new Request('http://127.0.0.1/metrics'))
    const text = await answer.text()
    const valueOf = (name: string, label = '') =>
      Number(
        text
          .split('\n')
          .find((line) => line.startsWith(`${name}{`) && line.includes(label))
          ?.split(' ')[1],
      )
    assert.deepEqual(
      [
        valueOf('concord_commands_open', 'status="waiting_for_approval"'),
        valueOf('concord_commands_open', 'status="blocked"'),
        valueOf('concord_commands_open', 'status="queued"'),
        valueOf('concord_effects_in_doubt'),
        valueOf('concord_stuck'),
        // From the tests before: two retries of one refund, and one approval that expired.
        valueOf('concord_retries_total', 'error_class="rate_limited"'),
        valueOf('concord_retries_total', 'error_class="transient_connector_error"'),
        valueOf('concord_command_statuses_total', 'status="expired"'),
        valueOf('concord_command_statuses_total', 'status="waiting_for_approval"'),
      ],
      [1, 1, 0, 1, 0, 1, 1, 1, 3],
    )
    assert.ok(valueOf('concord_oldest_approval_seconds') > 0)
  })
})
