/** Invoices that must be paid once. The bank has its own book: what was paid and paid back for each invoice, whatever key it came with. */
import { z } from 'zod'
import { defineEffect, type Definition, EffectFailure } from '../../../src/index.ts'
import type { JsonObject } from '../../../src/kernel/json-value.ts'
import { defineWork } from './define-work.ts'

export type BankAnswer = 'ok' | 'refuse' | 'denied' | 'reset'

export class Bank {
  /** By invoice: payments that stand now, and the most that ever stood at once. */
  readonly standing = new Map<string, number>()
  readonly most = new Map<string, number>()
  readonly keys: string[] = []
  /** The answers to the next payments, in order. Afterwards every payment succeeds. */
  readonly answers: BankAnswer[] = []
  readonly #done = new Map<string, string>()

  async pay(invoice: string, key: string): Promise<{ readonly paid: string }> {
    this.keys.push(key)
    const answer = this.answers.shift() ?? 'ok'
    if (answer === 'refuse') throw new EffectFailure('validation_error', 'The bank refuses the payment.', 'no')
    if (answer === 'denied') throw new EffectFailure('permission_denied', 'The account is not approved yet.', 'no')
    this.#once(key, invoice, 1)
    await new Promise(setImmediate)
    if (answer === 'reset') throw new EffectFailure('transient_connector_error', 'connection reset', 'unknown')
    return { paid: invoice }
  }

  async payBack(invoice: string, key: string): Promise<object> {
    this.#once(key, invoice, -1)
    return {}
  }

  /** A bank deduplicates by the key that it is sent. */
  #once(key: string, invoice: string, change: number): void {
    if (this.#done.has(key)) return
    this.#done.set(key, invoice)
    const now = (this.standing.get(invoice) ?? 0) + change
    this.standing.set(invoice, now)
    this.most.set(invoice, Math.max(now, this.most.get(invoice) ?? 0))
  }
}

const PAY = 'invoice.pay'
const REFUND = 'invoice.refund'

const payload = z.strictObject({
  invoice: z.string().trim().min(1),
  note: z.string().optional(),
  reference: z.string().nullable().optional(),
  account: z.strictObject({ iban: z.string(), bank: z.string().optional() }).optional(),
  decide: z.string().default('allow'),
})

/** `keyTemplate` names the invoice again in the key of the effect, as the operation of a connector can. */
export function invoiceTasks(bank: Bank, keyTemplate?: string): readonly Definition[] {
  const invoiceOf = (of: JsonObject) => of['invoice'] as string
  const plan = (of: JsonObject) => [{ effect_type: PAY, payload: { invoice: invoiceOf(of) } }]
  const task = {
    ingress_types: ['user_request', 'webhook', 'scheduled_trigger', 'agent_action'] as const,
    policy_checks: ['permission', 'scripted'],
    max_attempts: 3,
  }
  const paid = { payload, plan, effects: [PAY] }
  return [
    defineEffect({
      effect_type: PAY,
      class: 'keyed',
      ...(keyTemplate === undefined ? {} : { key_template: keyTemplate }),
      do: ({ payload: of, idempotencyKey }) => bank.pay(invoiceOf(of), idempotencyKey),
      undo: {
        name: REFUND,
        do: async (call) => {
          call.emit(REFUND)
          return bank.payBack(invoiceOf(call.undone.payload), call.idempotencyKey)
        },
      },
    }),
    ...defineWork({
      ...paid,
      name: 'Pay',
      type: { idempotency: { required: true, key_template: 'pay:{invoice}' } },
      task,
    }),
    // The invoice itself may be missing at first.
    ...defineWork({
      ...paid,
      name: 'Pay Later',
      type: { idempotency: { required: false, key_template: 'pay:{invoice}' }, input_expires_in_minutes: 60 },
      task: { ...task, required_inputs: ['invoice', 'note', 'account.bank'] },
    }),
    ...defineWork({
      ...paid,
      name: 'Pay Quickly',
      type: { idempotency: { required: true, key_template: 'pay:{invoice}' } },
      task: { ...task, async_required: false, sync_allowed: true },
    }),
  ]
}
