/** Refunds: below 50 at once, up to 500 after one approval, up to 5000 after two. A refund that fails is undone. */
import { allow, ask, defineCommand, defineEffect, defineSchedule, deny, mcpConnector } from '@concordhq/concord'
import { z } from 'zod'

/** The payment provider. It does a thing once per key. */
export type Payments = {
  refund(orderId: string, amount: number, key: string): Promise<{ refund_id: string }>
  reverse(refundId: string, key: string): Promise<void>
}

const fraud = mcpConnector({
  name: 'fraud',
  description: 'Scores customers.',
  server: { stdio: { command: process.execPath, args: [`${import.meta.dirname}/fraud-server.ts`] } },
  tools: {
    score: { side_effect_class: 'none', approval_required: false, input: z.object({ customer: z.string() }) },
  },
})

export function openRefunds(payments: Payments) {
  const payBack = defineEffect('payments.refund', {
    input: z.object({ order_id: z.string(), amount: z.number() }),
    class: 'keyed',
    do: ({ input, idempotencyKey }) => payments.refund(input.order_id, input.amount, idempotencyKey),
    undo: ({ result, idempotencyKey }) => payments.reverse(result.refund_id, idempotencyKey),
  })
  const refund = defineCommand('refund', {
    input: z.object({ order_id: z.string(), customer: z.string(), amount: z.number().positive() }),
    key: ({ order_id }) => `refund:${order_id}`,
    policy({ amount }) {
      if (amount > 5_000) return deny('Above 5000.')
      return amount < 50 ? allow() : ask(amount > 500 ? 2 : 1, 'refund-approver')
    },
    steps: ({ order_id, customer, amount }) => [fraud.score({ customer }), payBack({ order_id, amount })],
    onFailure: 'undo',
  })
  /** The key makes it one refund, however often the schedule fires. */
  const deposit = defineSchedule({
    name: 'refund_deposit',
    command_type: 'refund',
    cron: '0 9 * * *',
    time_zone: 'Europe/Berlin',
    queue: 'scheduled_maintenance',
    payload: { order_id: 'deposit', customer: 'acme', amount: 40 },
  })
  return { refund, project: { catalog: [refund, deposit] } }
}
