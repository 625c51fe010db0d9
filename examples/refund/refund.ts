/** Refunds: below 50 at once, up to 500 after one approval, up to 5000 after two. A refund that fails is undone. */
import {
  allow,
  ask,
  defineCommand,
  defineEffect,
  defineSchedule,
  deny,
  from,
  mcpConnector,
  memory,
} from '@concordhq/concord'
import { z } from 'zod'

/** Services of the program. Each does a thing once per key. */
export type Services = {
  refund(orderId: string, amount: number, key: string): Promise<{ refund_id: string }>
  reverse(refundId: string, key: string): Promise<void>
  tell(customer: string, language: string, key: string): Promise<void>
}

const fraud = mcpConnector({
  name: 'fraud',
  description: 'Scores customers.',
  server: { stdio: { command: process.execPath, args: [`${import.meta.dirname}/fraud-server.ts`] } },
  tools: {
    score: { side_effect_class: 'none', approval_required: false, input: z.object({ customer: z.string() }) },
  },
})

export function openRefunds(services: Services) {
  const payBack = defineEffect('payments.refund', {
    input: z.object({ order_id: z.string(), amount: z.number() }),
    class: 'keyed',
    do: ({ input, idempotencyKey }) => services.refund(input.order_id, input.amount, idempotencyKey),
    undo: ({ result, idempotencyKey }) => services.reverse(result.refund_id, idempotencyKey),
  })
  /** Reads the content of a memory where it is used: a result keeps only ids. */
  const notify = defineEffect('mail.refund', {
    input: z.object({ customer: z.string(), memory_ids: z.array(z.string()) }),
    class: 'keyed',
    async do({ input: { customer, memory_ids }, memory: memories, idempotencyKey }) {
      const [known] = await Promise.all(memory_ids.map((id) => memories.read(id)))
      await services.tell(customer, z.string().catch('en').parse(known?.content['language']), idempotencyKey)
    },
  })
  const refund = defineCommand('refund', {
    input: z.object({ order_id: z.string(), customer: z.string(), amount: z.number().positive() }),
    key: ({ order_id }) => `refund:${order_id}`,
    policy({ amount }) {
      if (amount > 5_000) return deny('Above 5000.')
      return amount < 50 ? allow() : ask(amount > 500 ? 2 : 1, 'refund-approver')
    },
    steps: ({ order_id, customer, amount }) => [
      fraud.score({ customer }),
      payBack({ order_id, amount }),
      memory.recall({ subject: `customer:${customer}`, memory_type: 'preference' }),
      notify({ customer, memory_ids: from(memory.recall, 'memory_ids') }),
    ],
    result: (_score, paid) => paid,
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
