/**
 * The key that makes two requests one: 1 to 255 visible characters in one Unicode form, so that keys which look the same
 * are the same. A longer key would also exceed the limit of the index.
 */
import { type KeyTemplate, renderKey } from './key-template.ts'
import type { JsonValue } from './json-value.ts'
import { accept, type Decision, quote, type Refusal, refuse } from './refusal.ts'

export const KEY_CHARACTERS_MAX = 255

/** Control, format (zero width, direction), private use, default ignorable, and every space except the plain one. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{DI}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u

/** Accepts a key exactly as sent. Trimming or repairing would make one key out of two. */
export function parseIdempotencyKey(text: string): Decision<string> {
  if (text === '') return badCharacters('The idempotency key is empty.')
  // At most two units per character: a longer text is refused without being scanned.
  if (text.length > 2 * KEY_CHARACTERS_MAX || Array.from(text).length > KEY_CHARACTERS_MAX) {
    return refuse('key_too_long', `The idempotency key must have 1 to ${KEY_CHARACTERS_MAX} characters.`, {
      facts: { charactersMax: KEY_CHARACTERS_MAX },
    })
  }
  if (HIDDEN.test(text)) return badCharacters(`The idempotency key ${quote(text)} has invisible characters.`)
  if (text.startsWith(' ') || text.endsWith(' '))
    return badCharacters(`The idempotency key ${quote(text)} has leading or trailing spaces.`)
  if (text.normalize('NFC') !== text)
    return badCharacters(`The idempotency key ${quote(text)} is not in the Unicode form NFC.`)
  return accept(text)
}

function badCharacters(reason: string): Refusal {
  return refuse('key_characters', reason, { hint: 'Use letters, digits and signs such as : - _ . in NFC.' })
}

/** The key rules in the contract of a command type. */
export type KeyContract = { readonly required: boolean; readonly template?: KeyTemplate }

/**
 * Returns the key of one submit: the key that was sent, else the key that the contract's template makes from the payload, else
 * none. A contract that requires a key also requires a payload that fills its template, whatever was sent.
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
  return refuse('idempotency.key.required', 'This command type needs an idempotency key.', {
    hint: 'Send idempotency_key, with the same value for every repetition of this request.',
  })
}
