/** A project of a user: two effects of its own, connectors, facts, a schedule, memory, and the layer below. It is only compiled. */
import {
  allow,
  ask,
  defineCommand,
  defineCommandType,
  defineEffect,
  defineFunction,
  defineProject,
  defineSchedule,
  defineTask,
  deny,
  from,
  httpConnector,
  mcpConnector,
} from '@concordhq/concord'
import { z } from 'zod'

const fraud = defineEffect('fraud.score', {
  input: z.object({ customer: z.string() }),
  class: 'read',
  do: async ({ input }) => ({ score: input.customer.length, charge_id: `ch_${input.customer}` }),
})

const payBack = defineEffect('payments.refund', {
  input: z.object({ charge_id: z.string(), amount: z.number(), note: z.string().optional() }),
  class: 'keyed',
  do: async ({ input, idempotencyKey }) => ({ refund_id: `${idempotencyKey}:${input.charge_id}` }),
  undo: async ({ result }) => ({ reversed: result.refund_id }),
})

const billing = httpConnector({
  name: 'billing',
  description: 'The billing system.',
  base_url: 'https://billing.example/v1',
  auth: { mode: 'bearer', secret_ref: 'env://BILLING_TOKEN' },
  operations: [],
})

const notes = mcpConnector({
  name: 'notes',
  description: 'Notes in a folder.',
  server: { stdio: { command: 'npx', args: ['server-filesystem', '/tmp'] } },
  tools: { write_note: { tool: 'write_file', risk_level: 'medium' } },
})

export const refund = defineCommand('refund', {
  input: z.object({
    order_id: z.string(),
    customer: z.string(),
    amount: z.number().positive(),
    note: z.string().optional(),
  }),
  key: ({ order_id }) => `refund:${order_id}`,
  facts: {
    refundsToday: async ({ input, sql }) => (await sql<{ n: number }>('select 1 as n', [input.order_id])).length,
  },
  policy: ({ amount }, { facts, requester }) =>
    amount > 5_000 || facts.refundsToday > 3
      ? deny('Above 5000.')
      : amount > 500
        ? ask(2, 'refund-approver')
        : amount >= 50 || requester.isAgent
          ? ask(1, 'refund-approver')
          : allow(),
  steps: ({ customer, amount }) => [fraud({ customer }), payBack({ charge_id: from(fraud, 'charge_id'), amount })],
  onFailure: 'undo',
})

/** The effects have different payloads, as in any plan of two effects. */
const planned = defineFunction({
  name: 'refund_below',
  plan: ({ customer, order_id, amount }) => [
    { effect_type: 'fraud.score', payload: { customer: String(customer) } },
    { effect_type: 'payments.refund', payload: { charge_id: String(order_id), amount: Number(amount) } },
  ],
})

export default defineProject({
  catalog: [
    refund,
    planned,
    defineCommandType({
      name: 'refund_below',
      description: 'Refunds an order.',
      payload: z.strictObject({ order_id: z.string(), customer: z.string(), amount: z.number() }),
      side_effects: ['fraud.score', 'payments.refund'],
      error_classes: ['timeout'],
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created'],
    }),
    defineTask({
      name: 'Refund Below',
      description: 'Refunds an order.',
      command_type: 'refund_below',
      function_name: 'refund_below',
    }),
    defineSchedule({ name: 'nightly', command_type: 'refund', cron: '30 2 * * *', queue: 'scheduled_maintenance' }),
  ],
  connectors: [billing, notes],
  memory: {
    schemas: [
      {
        name: 'user.refund_preferences',
        subject_type: 'user',
        memory_types: ['preference'],
        visibility: ['user'],
        consent: { required: true },
        confidence: { direct_from: 0.8 },
        expiration: { after_days: 365 },
        supersession: 'supersede',
        retrieval: ['subject'],
        write_policy: 'direct',
        sensitivity: 'internal',
      },
    ],
  },
})
