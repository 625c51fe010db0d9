/** Recognizes secrets by their shape: keys, tokens, passwords. A matching text is neither logged nor stored. */
import type { JsonValue } from './json-value.ts'
import { type GitleaksRule, gitleaksRules } from './secrets/gitleaks-rules.ts'
import { indexKeywords } from './secrets/keyword-index.ts'
import { ownRules, type SecretRule } from './secrets/own-rules.ts'

const REDACTED = '[redacted]'

/** A word that says that a name is about a secret. Without it `linkedin, …` is the beginning of a sentence. */
const SECRET_WORD = /key|token|secret|passw|auth|cred|api|sdk|cert|login/i

/** Characters with another spelling, and secret names that are no keywords of texts. */
const UNUSUAL_NAME = /[^ -$&-~]|pin|otp|pw|jwt|csc|cred|cookie|pass/i

function compile({
  pattern,
  flags = '',
  keywords,
  entropy = 0,
  isAssigned = false,
  allowed = [],
}: GitleaksRule): SecretRule {
  const exceptions = allowed.map((each) => new RegExp(`^(?:${each})`))
  return {
    keywords,
    shape: new RegExp(pattern, `${flags}g`),
    holds(match) {
      const secret = secretOf(match)
      if (entropyOf(secret) < entropy || exceptions.some((each) => each.test(secret))) return false
      if (!isAssigned) return true
      return /\d/.test(secret) && SECRET_WORD.test(match[0].slice(0, startOf(match, secret)))
    },
  }
}

type Rules = {
  /** Returns the rules that may match a text. Most texts have none, and are read once. */
  readonly of: (text: string) => ReadonlySet<SecretRule> | undefined
}

let opened: Rules | undefined

/** Compiles the rules at the first use: it takes 20 ms, and most programs of the command line never check a text. */
function openRules(): Rules {
  const rules = [...ownRules, ...gitleaksRules.map(compile)]
  const keywords = [...new Set(rules.flatMap((rule) => rule.keywords))]
  const rulesOfKeyword = keywords.map((keyword) => rules.filter((rule) => rule.keywords.includes(keyword)))
  const findKeywords = indexKeywords(keywords)
  return {
    of(text) {
      const found = findKeywords(text)
      return found && new Set([...found].flatMap((position) => rulesOfKeyword[position] ?? []))
    },
  }
}

function rulesFor(text: string): ReadonlySet<SecretRule> | undefined {
  opened ??= openRules()
  return opened.of(text)
}

/** Returns false for a field name that is no secret and cannot make its value one, at the price of one look. */
export function mayBeSecretName(name: string): boolean {
  return rulesFor(name) !== undefined || UNUSUAL_NAME.test(name)
}

function secretOf(match: RegExpExecArray): string {
  return match.groups?.['secret'] ?? match[1] ?? match[0]
}

/** Where the secret begins in its match. One that a lookahead has read is behind it. */
function startOf(match: RegExpExecArray, secret: string): number {
  const start = match[0].lastIndexOf(secret)
  return start === -1 ? match[0].length : start
}

/** Shannon entropy, in bits per character. */
function entropyOf(text: string): number {
  const counts = new Map<string, number>()
  for (const letter of text) counts.set(letter, (counts.get(letter) ?? 0) + 1)
  let sum = 0
  for (const count of counts.values()) sum -= (count / text.length) * Math.log2(count / text.length)
  return sum
}

function* matchesOf(text: string, shape: RegExp): Generator<RegExpExecArray> {
  for (const match of text.matchAll(shape)) yield match
}

function redact(text: string, isLog: boolean): string {
  const candidates = rulesFor(text)
  if (!candidates) return text
  let redacted = text
  for (const { shape, inLogs, holds } of candidates) {
    const pattern = isLog ? (inLogs ?? shape) : shape
    let copy = ''
    let end = 0
    for (const match of matchesOf(redacted, pattern)) {
      if (holds && !holds(match)) continue
      const secret = secretOf(match)
      const start = match.index + startOf(match, secret)
      copy += redacted.slice(end, start) + REDACTED
      end = start + secret.length
    }
    if (end > 0) redacted = copy + redacted.slice(end)
  }
  return redacted
}

/** For a line of a log, which stays JSON. */
export function redactLine(line: string): string {
  return redact(line, true)
}

/** For texts that leave the process: a terminal, an error record, a reason. */
export function redactText(text: string): string {
  return hideSpelled(text, redact(text, true))
}

/** A secret in another spelling has no place of its own in the text. */
function hideSpelled(text: string, redacted: string): string {
  return redacted === text && hasSecretShape(text) ? REDACTED : redacted
}

/** Returns whether a text has the shape of a secret, as it is or in another spelling of the same characters. */
export function hasSecretShape(text: string): boolean {
  if (isShaped(text)) return true
  // Most texts are ASCII without a percent sign: they have no other spelling.
  return /[%\u0080-\uffff]/.test(text) && isShaped(plainOf(text))
}

function isShaped(text: string): boolean {
  const candidates = rulesFor(text)
  if (!candidates) return false
  for (const { shape, holds } of candidates)
    for (const match of matchesOf(text, shape)) if (!holds || holds(match)) return true
  return false
}

/** Undoes percent-encoding, compatibility forms such as full-width letters, and characters that nobody sees. */
function plainOf(text: string): string {
  const decoded = text.replace(/%([0-7][\da-f])/gi, (_all, hex: string) =>
    String.fromCodePoint(Number.parseInt(hex, 16)),
  )
  return decoded.normalize('NFKC').replace(/[\p{Cf}\p{Mn}]/gu, '')
}

/** Returns the value with every text redacted, including object keys; parts without secrets are not copied. */
export function redactValue(value: JsonValue): JsonValue {
  if (typeof value === 'string') return redactData(value)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    const items = (value as readonly JsonValue[]).map(redactValue)
    return items.every((item, at) => item === value[at]) ? value : items
  }
  const entries = Object.entries(value).map(
    ([key, inner]) => [redactData(key), redactValue(inner), key, inner] as const,
  )
  return entries.every(([key, inner, oldKey, old]) => key === oldKey && inner === old)
    ? value
    : Object.fromEntries(entries.map(([key, inner]) => [key, inner]))
}

function redactData(text: string): string {
  return hideSpelled(text, redact(text, false))
}
