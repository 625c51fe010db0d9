/** Recognizes secrets by their shape: keys, tokens, passwords. A matching text is neither logged nor stored. */
import { type GitleaksRule, gitleaksRules } from './secrets/gitleaks-rules.ts'
import { indexKeywords } from './secrets/keyword-index.ts'
import { ownRules } from './secrets/own-rules.ts'
import type { SecretRule } from './secrets/secret-rule.ts'
import { hasOtherSpelling, spellingsOf } from './secrets/spelling.ts'

export const REDACTED = '[redacted]'

/** A word that says that a name is about a secret. Without it `linkedin, …` is the beginning of a sentence. */
const SECRET_WORD = /key|token|secret|passw|auth|cred|api|sdk|cert|login/i

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
  return rulesFor(name) !== undefined || hasOtherSpelling(name)
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

/** The next match of a rule that is a secret, from a position on: the match that has the secret. */
function nextSecret(
  text: string,
  { names, value, holds }: SecretRule,
  shape: RegExp,
  from: number,
): { readonly found: RegExpExecArray; readonly next: number } | undefined {
  let next = from
  for (let match = execAt(shape, text, next); match; match = execAt(shape, text, next)) {
    const end = match.index + match[0].length
    const found = !names || names(match) ? (value ? execAt(value, text, end) : match) : null
    const afterMatch = Math.max(end, match.index + 1)
    if (found && (!holds || holds(match, found))) return { found, next: afterMatch }
    // The words about one name may contain another: "the token for the password: …".
    next = names ? match.index + 1 : afterMatch
  }
  return undefined
}

/** `shape` is global or sticky. */
function execAt(shape: RegExp, text: string, at: number): RegExpExecArray | null {
  shape.lastIndex = at
  return shape.exec(text)
}

/** The shapes with positions of groups, which make a search twice as slow: they are read for a secret only. */
const located = new WeakMap<RegExp, RegExp>()

/** Where the secret of a match is in its text. A name may contain the same letters. */
function placeOf(match: RegExpExecArray, shape: RegExp): readonly [start: number, end: number] {
  const exact = located.get(shape) ?? new RegExp(shape, `${shape.flags.replace(/[gy]/, '')}dy`)
  located.set(shape, exact)
  const indices = execAt(exact, match.input, match.index)?.indices
  return indices?.groups?.['secret'] ?? indices?.[1] ?? [match.index, match.index + match[0].length]
}

function redact(text: string, isLog: boolean): string {
  const candidates = rulesFor(text)
  if (!candidates) return text
  let redacted = text
  for (const rule of candidates) {
    const shape = isLog ? (rule.inLogs ?? rule.shape) : rule.shape
    let copy = ''
    let end = 0
    for (
      let secret = nextSecret(redacted, rule, shape, 0);
      secret;
      secret = nextSecret(redacted, rule, shape, secret.next)
    ) {
      const [start, stop] = placeOf(secret.found, rule.value ?? shape)
      if (start < end) continue
      copy += redacted.slice(end, start) + REDACTED
      end = stop
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
  return hideSpelled(redact(text, true))
}

/** A secret in another spelling has no place of its own in the text. */
function hideSpelled(redacted: string): string {
  // No rule takes an empty quotation for a secret.
  return hasSecretShape(redacted.replaceAll(REDACTED, '""')) ? REDACTED : redacted
}

/** Returns whether a text has the shape of a secret, as it is or in another spelling. */
export function hasSecretShape(text: string): boolean {
  return isShaped(text) || spellingsOf(text).some(isShaped)
}

function isShaped(text: string): boolean {
  const candidates = rulesFor(text)
  if (!candidates) return false
  for (const rule of candidates) if (nextSecret(text, rule, rule.shape, 0)) return true
  return false
}

/** For a text in data, which is used later: only what is certain is removed. */
export function redactData(text: string): string {
  return hideSpelled(redact(text, false))
}
