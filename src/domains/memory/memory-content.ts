/** Whom a memory is about, as people write it: `user:user_0197…`, `customer:4711`, `team:finance`. Pure. */
import { hash } from 'node:crypto'
import { canonicalJson } from '#kernel/canonical-json'
import { decodeId, encodeId } from '#kernel/ids'
import { formatPath, type JsonObject, type JsonStep, type JsonValue } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { hasSecretShape } from '#kernel/secret-shapes'
import { showLine } from '#kernel/visible-text'
import { memorySensitivities, type MemorySensitivity, type Subject } from './memory-repository.ts'

const KIND = /^[a-z][a-z0-9_]{0,49}$/
const ID_CHARS_MAX = 200

/** A user of this installation is kept by its UUID, however the id was written, so that one person is one subject. */
export function parseSubject(text: string): Decision<Subject> {
  const [kind = '', ...rest] = text.split(':')
  const id = rest.join(':').normalize('NFC')
  const isUsable = KIND.test(kind) && id !== '' && id.length <= ID_CHARS_MAX && id === id.trim() && showLine(id) === id
  // Behind this prefix stands what remains of an erased subject.
  if (!isUsable || id.startsWith('erased:')) {
    return refuse('memory.subject.invalid', `${quote(text)} does not say whom it is about`, {
      path: 'subject',
      hint: 'Write kind:id, such as user:user_0197… or customer:4711.',
    })
  }
  const user = kind === 'user' ? decodeId('user', id) : undefined
  return accept({ subject_type: kind, subject_id: user?.ok ? user.value : id })
}

export function showSubject({ subject_type, subject_id }: Subject): string {
  const isUser = subject_type === 'user' && decodeId('user', subject_id).ok
  return `${subject_type}:${isUser ? encodeId('user', subject_id) : subject_id}`
}

/** When two memories speak of the same thing: by the key their author gave, otherwise only when they say the same. Pure. */
const KEY = /^[a-z0-9][a-z0-9_.:-]{0,199}$/
/** Behind this prefix stands what a memory says, not what it is about. */
const SAID = 'says:'

export function parseFactKey(text: string): Decision<string> {
  if (KEY.test(text) && !text.startsWith(SAID)) return accept(text)
  return refuse('api.field.value', `${quote(text)} cannot be used as the key of a fact`, {
    hint: 'Use 1 to 200 lower-case letters, digits and . _ : - such as travel.seat, and do not begin with says:',
  })
}

/** Without a key nobody can tell a contradiction; the same words twice are still one fact. */
export function factKeyOf(key: string | undefined, content: JsonObject): string {
  return key ?? SAID + hash('sha256', canonicalJson(content))
}

export function isSameContent(one: JsonObject, other: JsonObject): boolean {
  return canonicalJson(one) === canonicalJson(other)
}

/** Checks whether a certificate is about a given subject; the certificate's id is the salt. */
export function subjectDigest(erasureId: string, { subject_type, subject_id }: Subject): string {
  return hash('sha256', canonicalJson([erasureId, subject_type, subject_id]))
}

/** How sensitive a content is, whatever its author says: secrets, payment data and personal data are recognised by their form. Pure. */
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
