/** Refusals about a key in the words of whoever sent it; who sent none is told which fields of the payload the contract made it of. */
import type { KeyContract } from '#kernel/idempotency-key'
import { encodeId } from '#kernel/ids'
import type { Refusal } from '#kernel/refusal'

const OWN_KEY = 'Send an idempotency_key of your own if this is a request of its own.'

/** The template behind a key that nobody sent. */
export function madeBy(contract: KeyContract, sent: string | undefined): string | undefined {
  return sent === undefined ? contract.template?.text : undefined
}

/** The id of the first command is shown to a person of its workspace, who may read it anyway; an outside system is shown nothing of it. */
export function explainReused(refusal: Refusal, template: string | undefined, mayRead: boolean): Refusal {
  const { facts, ...bare } = refusal
  const first = facts?.['first']
  if (!mayRead || typeof first !== 'string') return bare
  const commandId = encodeId('command', first)
  const shown = { ...bare, facts: { command_id: commandId } }
  if (template === undefined) return shown
  const reason = `${commandId} has the same key, which its contract makes: ${template}; the rest of the request differs`
  return { ...shown, reason, hint: OWN_KEY }
}

export function explainLong(refusal: Refusal, template: string | undefined): Refusal {
  if (refusal.code !== 'key_too_long' || template === undefined) return refusal
  return { ...refusal, reason: `${refusal.reason} The contract makes the key: ${template}.`, hint: OWN_KEY }
}
