/** A governed refund in one definition: its input, its key, its policy and its steps, run inside this program. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { allow, ask, defineCommand, defineEffect, deny, from, openConcord } from '@concordhq/concord'
import { z } from 'zod'

const findCharge = defineEffect('payments.find_charge', {
  input: z.object({ order_id: z.string() }),
  class: 'read',
  do: ({ input }) => Promise.resolve({ charge_id: `ch_${input.order_id}` }),
})

const payBack = defineEffect('payments.refund', {
  input: z.object({ charge_id: z.string(), amount: z.number() }),
  class: 'keyed',
  async do({ input }) {
    console.log(`the provider pays back ${input.amount} of ${input.charge_id}`)
    return { refund_id: `re_${input.charge_id}` }
  },
  async undo({ result }) {
    console.log(`the provider reverses ${result.refund_id}`)
  },
})

export const refund = defineCommand('refund', {
  input: z.object({ order_id: z.string(), amount: z.number().positive() }),
  key: ({ order_id }) => `refund:${order_id}`,
  policy: ({ amount }) => (amount > 5_000 ? deny('Above 5000.') : amount >= 50 ? ask(1, 'refund-approver') : allow()),
  steps: ({ order_id, amount }) => [
    findCharge({ order_id }),
    payBack({ charge_id: from(findCharge, 'charge_id'), amount }),
  ],
  onFailure: 'undo',
})

const home = await mkdtemp(join(tmpdir(), 'concord-refund-'))
const concord = await openConcord({ project: { catalog: [refund] }, home })
try {
  const ask20 = await concord.submit(refund, { order_id: 'order-1', amount: 20 })
  const ask100 = await concord.submit(refund, { order_id: 'order-2', amount: 100 })
  const ask6000 = await concord.submit(refund, { order_id: 'order-3', amount: 6_000 })
  const paid = await concord.wait(ask20)
  console.log(`20: ${paid.status}, ${paid.result?.refund_id}`)
  console.log(`100: ${(await concord.wait(ask100)).status}`)
  const denied = await concord.wait(ask6000)
  console.log(`6000: ${denied.status}, ${denied.error}`)
  const undo = await concord.wait(await concord.undo(paid, 'The customer kept the goods.'))
  console.log(`The undo of the first: ${undo.status}`)
} finally {
  await concord.close()
  await rm(home, { recursive: true, force: true })
}
