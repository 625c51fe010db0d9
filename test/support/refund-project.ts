/** A project for journeys: one task, whose every request a person of finance must agree to. */
import { z } from 'zod'
import {
  defineCommandType,
  defineEffect,
  defineFunction,
  definePolicy,
  defineProject,
  defineTask,
} from '../../src/index.ts'
import { errorClasses } from '../../src/kernel/error-classes.ts'

export default defineProject({
  catalog: [
    definePolicy({
      name: 'finance_agrees',
      category: 'approval_requirement',
      actions: '*',
      decide: () => ({
        decision: 'require_approval',
        reasons: ['Money leaves the organisation.'],
        required_approvals: ['finance'],
      }),
    }),
    defineEffect({
      effect_type: 'refund.pay',
      class: 'keyed',
      do: ({ payload }) => Promise.resolve({ paid: payload['amount'] ?? null }),
    }),
    defineFunction({
      name: 'refund',
      plan: ({ order, amount }) => [
        { effect_type: 'refund.pay', payload: { order: order ?? null, amount: amount ?? null } },
      ],
      result: ([first]) => first,
    }),
    defineCommandType({
      name: 'refund',
      description: 'Sends the money of an order back.',
      payload: z.strictObject({ order: z.string(), amount: z.string() }),
      side_effects: ['refund.pay'],
      error_classes: errorClasses,
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created', 'policy_evaluated'],
    }),
    defineTask({
      name: 'Refund Order',
      description: 'Pays an order back.',
      command_type: 'refund',
      function_name: 'refund',
      ingress_types: ['user_request'],
      required_inputs: ['order'],
      async_required: true,
      policy_checks: ['permission', 'finance_agrees'],
    }),
  ],
})
