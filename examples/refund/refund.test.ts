/** The refund project as its user tests it: amounts, a provider that loses an answer, undo, the schedule, and the typed client. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { connect } from '@concordhq/concord/client'
import { openTestConcord, type TestConcord } from '@concordhq/concord/testing'
import { until } from '#test/until'
import { openRefunds } from './refund.ts'

describe('refunds', () => {
  const paid = new Map<string, number>()
  const reversed: string[] = []
  const told: string[] = []
  const { refund, project } = openRefunds({
    async refund(orderId, amount, key) {
      paid.set(key, amount)
      return { refund_id: `re_${orderId}` }
    },
    async reverse(refundId) {
      reversed.push(refundId)
    },
    async tell(customer, language) {
      told.push(`${customer} in ${language}`)
    },
  })
  let concord: TestConcord
  const ask = async (order_id: string, amount: number) =>
    concord.wait(await concord.submit(refund, { order_id, customer: 'acme', amount }))

  before(async () => {
    concord = await openTestConcord({ project })
    // A tool of an MCP server can be called only after a person has approved its definition.
    const params = { path: { connector_id: 'fraud' } }
    const { data } = await concord.api.POST('/connectors/{connector_id}/definitions/check', { params })
    for (const { operation, seen_hash: hash } of data?.items ?? [])
      await concord.api.POST('/connectors/{connector_id}/definitions/{operation}/approve', {
        params: { path: { connector_id: 'fraud', operation } },
        body: { hash },
      })
  })
  after(() => concord.close())

  test('20 is paid, 100 and 900 wait for one and two people, 6000 is denied', async () => {
    const [dora, ben] = [
      await concord.person('dora', 'refund-approver'),
      await concord.person('ben', 'refund-approver'),
    ]
    const small = await ask('o-20', 20)
    assert.deepEqual([small.status, small.result?.refund_id], ['succeeded', 're_o-20'])
    const approve = async (person: typeof dora, command: { command_id: string }) => {
      const [card] = await person.inbox(command.command_id)
      await person.approve(card ?? assert.fail('The person was not asked.'))
      return (await concord.wait(command.command_id)).status
    }
    const middle = await ask('o-100', 100)
    assert.deepEqual([middle.status, await approve(dora, middle)], ['waiting_for_approval', 'succeeded'])
    const large = await ask('o-900', 900)
    assert.deepEqual([await approve(dora, large), await approve(ben, large)], ['waiting_for_approval', 'succeeded'])
    const denied = await ask('o-6000', 6_000)
    assert.deepEqual([denied.status, denied.error], ['failed', 'Above 5000.'])
    assert.deepEqual([...paid.values()], [20, 100, 900])
  })

  test('a payment whose answer was lost is paid once, and its undo reverses it', async () => {
    concord.misbehave('payments.refund', { after: true })
    const asked = await concord.submit(refund, { order_id: 'o-lost', customer: 'acme', amount: 30 })
    await until(() => concord.calls.some(({ input }) => input['order_id'] === 'o-lost'))
    await concord.clock.advance(300_000)
    const done = await concord.wait(asked)
    assert.equal(done.status, 'succeeded')
    const calls = concord.calls.filter(({ input }) => input['order_id'] === 'o-lost')
    assert.deepEqual([calls.length, new Set(calls.map(({ key }) => key)).size], [2, 1])
    assert.equal((await concord.wait(await concord.undo(done, 'The customer kept it.'))).status, 'succeeded')
    assert.deepEqual(reversed, ['re_o-lost'])
  })

  test('a customer gets a message in the language that Concord remembers', async () => {
    const about = { subject: 'customer:acme', memory_type: 'preference', scope: 'project' } as const
    await concord.api.POST('/memory/consents', { body: about })
    const memory = { ...about, fact_key: 'language', confidence: 0.9, content: { language: 'de' } }
    const { data } = await concord.api.POST('/memory', { body: memory })
    await concord.wait(data?.command_id ?? '')
    assert.equal((await ask('o-de', 20)).status, 'succeeded')
    assert.deepEqual([told.at(0), told.at(-1)], ['acme in en', 'acme in de'])
  })

  test('another program submits through the typed client', async () => {
    const { data } = await concord.api.POST('/keys', { body: { name: 'shop', role: 'writer' } })
    const client = connect({
      url: 'http://127.0.0.1',
      key: data?.key ?? '',
      fetch: (request) => concord.fetch(request),
    })
    const done = await client.wait(await client.submit(refund, { order_id: 'o-1', customer: 'acme', amount: 10 }))
    assert.equal(done.result?.refund_id, 're_o-1')
  })

  test('the schedule refunds the deposit', async () => {
    await concord.clock.advance(86_400_000)
    await until(() => [...paid.values()].includes(40), 'the refund of the deposit')
  })
})
