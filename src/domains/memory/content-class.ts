/** How sensitive a content is, whatever its author says: secrets, payment data and personal data are recognised by their form. Pure. */
import { formatPath, type JsonObject, type JsonStep, type JsonValue } from '#kernel/json-value'
import { hasSecretShape } from '#kernel/secret-shapes'
import { memorySensitivities, type MemorySensitivity } from './memory-row.ts'

export type ContentClass = MemorySensitivity | 'secret'

/** The classes of data from the freest to the strictest, as the commands room has them. */
export const contentClasses: readonly ContentClass[] = [...memorySensitivities, 'secret']

export type Finding = { readonly class: ContentClass; readonly path: string }

const SECRET_NAME =
  /^(password|passwd|passphrase|secret|api[_-]?key|access[_-]?token|refresh[_-]?token|private[_-]?key|client[_-]?secret|pin)$/i
/** Beside what has the shape of a credential: a key that was cut, and passwords as people say them. */
const SAID_SECRET = /-----BEGIN [A-Z ]*PRIVATE KEY-----|\b(?:password|passwd|passphrase|api key)\s*(?:is|[:=])\s*\S+/i
/** One character before the sign is enough, and what follows is bounded: a long word without one must not be searched from each of its characters. */
const EMAIL = /[^\s@]@[^\s@]{1,255}\.[a-z]{2,}/i
const PHONE = /(?<![\w.])\+\d[\d ()/-]{7,18}\d/
const IBAN = /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b/
const CARD = /(?<!\d)(?:\d[ -]?){12,18}\d(?!\d)/g
/** `vault://team/stripe`: where a secret is kept is no secret. */
const REFERENCE = /^[a-z][a-z0-9+.-]{1,31}:\/\/[\w./:@-]{1,400}$/

/** The strictest class found, at least what the author declared, with the place of each find; never the value. */
export function classifyContent(
  content: JsonObject,
  declared: MemorySensitivity = 'internal',
): { readonly class: ContentClass; readonly findings: readonly Finding[] } {
  const findings = [...findingsIn(content, [])]
  const strictest = findings.reduce<ContentClass>((highest, found) => stricter(highest, found.class), declared)
  return { class: strictest, findings }
}

function stricter(one: ContentClass, other: ContentClass): ContentClass {
  return contentClasses.indexOf(one) >= contentClasses.indexOf(other) ? one : other
}

function* findingsIn(value: JsonValue, steps: readonly JsonStep[]): Generator<Finding> {
  if (typeof value === 'string') {
    yield* findingsInText(value, steps)
  } else if (typeof value === 'number') {
    if (isCard(String(value))) yield { class: 'payment', path: formatPath(steps) }
  } else if (Array.isArray(value)) {
    for (const [index, item] of (value as readonly JsonValue[]).entries()) yield* findingsIn(item, [...steps, index])
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, item] of Object.entries(value as JsonObject)) {
      yield* findingsInText(name, [...steps, name])
      yield* findingsIn(item, [...steps, name])
    }
  }
}

function* findingsInText(text: string, steps: readonly JsonStep[]): Generator<Finding> {
  const path = formatPath(steps)
  const name = steps.findLast((step) => typeof step === 'string')
  const isNamedSecret = typeof name === 'string' && text !== name && SECRET_NAME.test(name) && text.trim() !== ''
  if ((isNamedSecret && !REFERENCE.test(text)) || SAID_SECRET.test(text) || hasSecretShape(text))
    yield { class: 'secret', path }
  if (IBAN.test(text) || [...text.matchAll(CARD)].some(([digits]) => isCard(digits))) yield { class: 'payment', path }
  if (EMAIL.test(text) || PHONE.test(text)) yield { class: 'pii', path }
}

/** 13 to 19 digits with the check digit of card numbers (Luhn). */
function isCard(text: string): boolean {
  const digits = text.replaceAll(/[ -]/g, '')
  if (!/^\d{13,19}$/.test(digits) || /^(\d)\1+$/.test(digits)) return false
  const sum = digits
    .split('')
    .toReversed()
    .reduce((total, digit, index) => {
      const twice = Number(digit) * 2
      return total + (index % 2 === 0 ? Number(digit) : twice > 9 ? twice - 9 : twice)
    }, 0)
  return sum % 10 === 0
}
