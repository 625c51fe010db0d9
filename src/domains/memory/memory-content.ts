/** Parses subjects (`user:user_0197…`, `customer:4711`, `team:finance`) and fact keys, and classifies content. Pure. */
import { hash } from 'node:crypto'
import { visibleLine } from '#contract'
import { canonicalJson } from '#kernel/canonical-json'
import { type DataClass, dataClasses } from '#kernel/data-class'
import { decodeId, encodeId } from '#kernel/ids'
import { formatPath, type JsonObject, type JsonStep, type JsonValue } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { findSecret } from '#kernel/secrets/find-secret'
import { isVisibleLine } from '#kernel/visible-text'
import type { MemorySensitivity, Subject } from './memory-record.ts'

const KIND = /^[a-z][a-z0-9_]{0,49}$/
const ID_CHARS_MAX = 200

/** What a document can say about a subject. */
export const subjectForm = { ...visibleLine, pattern: `^[a-z][a-z0-9_]{0,49}:[^ ].{0,${ID_CHARS_MAX - 1}}$` }

/** Stores a user of this installation by UUID for every written form of the id, so that one person is one subject. */
export function parseSubject(text: string): Decision<Subject> {
  const [kind = '', ...rest] = text.split(':')
  const id = rest.join(':').normalize('NFC')
  const isUsable = KIND.test(kind) && isVisibleLine(id, ID_CHARS_MAX)
  // The id of an erased subject starts with this prefix.
  if (!isUsable || id.startsWith('erased:')) {
    return refuse('memory.subject.invalid', `${quote(text)} is not a subject.`, {
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

export const factKeyForm = /^[a-z0-9][a-z0-9_.:-]{0,199}$/
/** The prefix of keys that are made from the content because the author gave no key. */
const SAID = 'says:'

export function parseFactKey(text: string): Decision<string> {
  if (factKeyForm.test(text) && !text.startsWith(SAID)) return accept(text)
  return refuse('api.field.value', `${quote(text)} cannot be used as the key of a fact.`, {
    hint: 'Use 1 to 200 lower-case letters, digits and . _ : - such as travel.seat, and do not start with says:',
  })
}

/** Two memories with one key state the same fact. Without a key, only identical content is the same fact. */
export function factKeyOf(key: string | undefined, content: JsonObject): string {
  return key ?? SAID + hash('sha256', canonicalJson(content))
}

export function isSameContent(one: JsonObject, other: JsonObject): boolean {
  return canonicalJson(one) === canonicalJson(other)
}

/** Proves that a certificate is about a given subject; the id of the erasure is the salt. */
export function subjectDigest(erasureId: string, { subject_type, subject_id }: Subject): string {
  return hash('sha256', canonicalJson([erasureId, subject_type, subject_id]))
}

/** Classifies content by its form, whatever its author declares: secrets, payment data and personal data. Pure. */
type Finding = { readonly class: DataClass; readonly path: string }

/** Matches one character before the @ and a bounded text after it, so that a long word without an @ is not searched from each of its characters. */
const EMAIL = /[^\s@]@[^\s@]{1,255}\.[a-z]{2,}/i
const PHONE = /(?<![\w.])\+\d[\d ()/-]{7,18}\d/
const IBAN = /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b/
const CARD = /(?<!\d)(?:\d[ -]?){12,18}\d(?!\d)/g

/** Returns the strictest class found, at least the declared one, and the path of each finding; never a value. */
export function classifyContent(
  content: JsonObject,
  declared: MemorySensitivity = 'internal',
): { readonly class: DataClass; readonly findings: readonly Finding[] } {
  const secret = findSecret(content)
  const findings = [...(secret ? [{ class: 'secret' as const, path: secret.path }] : []), ...findingsIn(content, [])]
  const strictest = findings.reduce<DataClass>((highest, found) => stricter(highest, found.class), declared)
  return { class: strictest, findings }
}

function stricter(one: DataClass, other: DataClass): DataClass {
  return dataClasses.indexOf(one) >= dataClasses.indexOf(other) ? one : other
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
  if (IBAN.test(text) || [...text.matchAll(CARD)].some(([digits]) => isCard(digits))) yield { class: 'payment', path }
  if (EMAIL.test(text) || PHONE.test(text)) yield { class: 'pii', path }
}

/** A card number has 13 to 19 digits and a Luhn check digit. */
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
