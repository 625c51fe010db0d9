/**
 * The key that makes two requests one: 1 to 255 visible characters in one Unicode form, so that keys which look the same
 * are the same. Longer ones would also break the index behind them.
 */
import { type KeyTemplate, renderKey } from './key-template.ts'
import type { JsonValue } from './json-value.ts'
import { accept, type Decision, quote, type Refusal, refuse } from './refusal.ts'

export const KEY_CHARACTERS_MAX = 255

/** Control, format (zero width, direction), private use, invisible by default, and every space but the plain one. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{DI}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u

/** Takes a key as the caller sent it; nothing is trimmed or repaired, for that would make two keys out of one. */
export function parseIdempotencyKey(text: string): Decision<string> {
  if (text === '') return badCharacters('the idempotency key is empty')
  // Two units per character at most: what is longer is refused before it is looked at.
  if (text.length > 2 * KEY_CHARACTERS_MAX || Array.from(text).length > KEY_CHARACTERS_MAX) {
    return refuse('key_too_long', `the idempotency key must have 1 to ${KEY_CHARACTERS_MAX} characters`, {
      facts: { charactersMax: KEY_CHARACTERS_MAX },
    })
  }
  if (HIDDEN.test(text)) return badCharacters(`the idempotency key ${quote(text)} has invisible characters`)
  if (text.startsWith(' ') || text.endsWith(' '))
    return badCharacters(`the idempotency key ${quote(text)} has spaces around it`)
  if (text.normalize('NFC') !== text)
    return badCharacters(`the idempotency key ${quote(text)} is not in the Unicode form NFC`)
  return accept(text)
}

function badCharacters(reason: string): Refusal {
  return refuse('key_characters', reason, { hint: 'Use letters, digits and signs such as : - _ . in NFC.' })
}

/** What the contract of a command type says about keys. */
export type KeyContract = { readonly required: boolean; readonly template?: KeyTemplate }

/**
 * The key of one submit: the one that was sent, else the one that the contract's template makes from the payload, else
 * none. A contract that requires a key also requires that its template can be filled, whatever was sent.
 */
export function decideIdempotencyKey(
  contract: KeyContract,
  sent: string | undefined,
  payload: JsonValue,
): Decision<string | undefined> {
  const made = contract.template && renderKey(contract.template, payload)
  if (contract.required && made && !made.ok) return made
  if (sent !== undefined) return parseIdempotencyKey(sent)
  if (made?.ok) return parseIdempotencyKey(made.value)
  if (!contract.required) return accept(undefined)
  return refuse('idempotency.key.required', 'this command type needs an idempotency key', {
    hint: 'Send idempotency_key, the same one for every repetition of this request.',
  })
}
