/** Commands that wait for a carrier: a webhook becomes a signal, a signal may come early, and a wait that is too long is undone. */
import { createHmac } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { allow, defineCommand, defineEffect, from, waitFor } from '@concordhq/concord'
import { openTestConcord } from '@concordhq/concord/testing'
import { z } from 'zod'

const ship = defineEffect('carrier.ship', {
  input: z.object({ order_id: z.string() }),
  class: 'keyed',
  do: ({ input }) => Promise.resolve({ parcel: `parcel of ${input.order_id}` }),
  async undo({ result }) {
    console.log(`the carrier returns the ${result.parcel}`)
  },
})

const bill = defineEffect('payments.charge', {
  input: z.object({ order_id: z.string(), signed_by: z.string() }),
  class: 'keyed',
  do: ({ input }) => Promise.resolve({ bill: `${input.order_id}, signed by ${input.signed_by}` }),
})

const deliver = defineCommand('deliver', {
  input: z.object({ order_id: z.string() }),
  key: ({ order_id }) => `deliver:${order_id}`,
  policy: () => allow(),
  steps: ({ order_id }) => {
    const delivered = waitFor<{ signed_by: string }>('carrier.delivered', { key: order_id, timeout: '14d' })
    return [ship({ order_id }), delivered, bill({ order_id, signed_by: from(delivered, 'signed_by') })]
  },
  onFailure: 'undo',
})

const secret = Buffer.from('shared with the carrier')
const event = z.object({ type: z.literal('delivered'), order: z.string(), signed_by: z.string() })
const carrier = {
  name: 'carrier',
  secret,
  map(body: unknown) {
    const { data } = event.safeParse(body)
    if (!data) return undefined
    return { signal: { name: 'carrier.delivered', key: data.order, payload: { signed_by: data.signed_by } } }
  },
}

/** As the carrier does. */
function delivery(id: string, sent: object): Request {
  const body = JSON.stringify(sent)
  const timestamp = String(Math.floor(Date.now() / 1_000))
  const signature = createHmac('sha256', secret).update(`${id}.${timestamp}.${body}`).digest('hex')
  const headers = { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1=${signature}` }
  return new Request('http://127.0.0.1/webhooks/carrier', {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  })
}

const concord = await openTestConcord({ project: { catalog: [deliver], webhooks: [carrier] } })
try {
  const first = await concord.submit(deliver, { order_id: 'order-1' })
  const sent = { type: 'delivered', order: 'order-1', signed_by: 'Dora' }
  for (const times of ['first', 'again']) {
    const { outcome } = (await (await concord.fetch(delivery('evt-1', sent))).json()) as { outcome: string }
    console.log(`The webhook, ${times}: ${outcome}`)
  }
  console.log((await concord.wait(first)).result?.bill)

  const { woken } = await concord.signal('carrier.delivered', { key: 'order-2', payload: { signed_by: 'Kim' } })
  console.log(`A signal before its command wakes ${woken}.`)
  console.log((await concord.wait(await concord.submit(deliver, { order_id: 'order-2' }))).result?.bill)

  const late = await concord.submit(deliver, { order_id: 'order-3' })
  const waits = async () => (await concord.get(late)).waiting_reason?.startsWith('the signal')
  while (!(await waits())) await pause(20)
  await concord.clock.advance(14 * 86_400_000)
  const { status, error } = await concord.wait(late)
  console.log(`${status}: ${error}`)
} finally {
  await concord.close()
}
