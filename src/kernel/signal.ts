/** The name and the key of a signal: what happened, and to which thing. A wait names both, so they must be the same text on both sides. */
import { KEY_CHARACTERS_MAX } from './idempotency-key.ts'
import { accept, type Decision, quote, refuse } from './refusal.ts'
import { isVisibleLine } from './visible-text.ts'

/** How long a signal is kept by default, so that it can come before the wait. */
export const SIGNAL_KEEP_MS = 30 * 86_400_000

export const SIGNAL_NAME = /^[A-Za-z][\w.:-]{0,99}$/

export function parseSignalName(text: string): Decision<string> {
  if (SIGNAL_NAME.test(text)) return accept(text)
  return refuse('signal_name', `${quote(text)} is not the name of a signal.`, {
    hint: 'Use a letter, then letters, digits and . _ : -, at most 100 characters, such as carrier.delivered.',
  })
}

/** Exactly as sent. Trimming or repairing would make one key out of two. */
export function parseSignalKey(text: string): Decision<string> {
  if (isVisibleLine(text, KEY_CHARACTERS_MAX) && text.normalize('NFC') === text) return accept(text)
  return refuse('signal_key', `${quote(text)} is not the key of a signal.`, {
    hint: `Use 1 to ${KEY_CHARACTERS_MAX} visible characters in NFC, without leading or trailing spaces, such as order-7.`,
  })
}

/** The sender that a wait can require: a webhook, because its signature proves who sent the event. */
export function parseSignalSender(text: string): Decision<string> {
  if (text.startsWith('webhook:') && isVisibleLine(text, KEY_CHARACTERS_MAX)) return accept(text)
  return refuse('signal_sender', `${quote(text)} is not the sender of a signal.`, {
    hint: 'Use webhook: and the name of the webhook in the project, such as webhook:carrier.',
  })
}
