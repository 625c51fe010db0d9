/** Recognizes secrets by their shape: keys, tokens, passwords in URLs. A matching text is neither logged nor stored. */
import type { JsonValue } from './json-value.ts'

type Shape = {
  /** For logs and errors: prefers false positives. */
  readonly shape: RegExp
  readonly instead: string
  /** For data that is used later: "Basic information" is not a credential, a port is not a password. */
  readonly strict?: RegExp
}

const SHAPES: readonly Shape[] = [
  // Concord's own keys: the prefix stays, so that a person can see which key it was.
  { shape: /\bck_([a-z0-9]{4,16})_[A-Za-z0-9_-]{20,}/g, instead: 'ck_$1_[redacted]' },
  // Passwords in connection URLs.
  {
    shape: /\b([a-z][a-z0-9+.-]{0,20}:\/\/[^\s:/@"']{0,256}):[^\s@"']{1,1024}@/gi,
    strict: /\b([a-z][a-z0-9+.-]{0,20}:\/\/[^\s:/@"']{0,256}):[^\s@"'/]{1,1024}@/gi,
    instead: '$1:[redacted]@',
  },
  // Bearer and basic credentials.
  {
    shape: /\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}/gi,
    strict: /\b(Bearer|Basic)\s+(?=\S*\d)(?=\S*[A-Za-z])[A-Za-z0-9._~+/=-]{16,}/gi,
    instead: '$1 [redacted]',
  },
  // Signed tokens (three base64url parts that start like a JSON header). A header ends where another one begins: a text of
  // nothing but beginnings would otherwise be scanned to its end from each of them (a megabyte took twenty minutes).
  {
    shape: /\beyJ(?:[A-Za-z0-9_]|-(?!eyJ)){5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*/g,
    instead: '[redacted token]',
  },
  // Keys of well-known providers.
  {
    shape: /\b(sk|pk|rk)[-_](live|test|proj|ant)?[-_]?[A-Za-z0-9_-]{16,}/g,
    strict: /\b(?:sk|rk)[-_](?:(?:live|test|proj|ant)[-_][A-Za-z0-9_-]{16,}|(?=[A-Za-z]*\d)[A-Za-z0-9]{20,})/g,
    instead: '[redacted key]',
  },
  { shape: /\bgh[pousr]_[A-Za-z0-9]{20,}/g, instead: '[redacted key]' },
  { shape: /\bxox[abprs]-[A-Za-z0-9-]{10,}/g, instead: '[redacted key]' },
  { shape: /\bAKIA[0-9A-Z]{16}\b/g, instead: '[redacted key]' },
  // Private keys; here too a new beginning ends the previous one.
  {
    shape: /-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-(?!----(?:BEGIN|END) )[^-]*)*-----END [A-Z ]*PRIVATE KEY-----/g,
    instead: '[redacted private key]',
  },
]

/** Every shape contains one of these. One look takes 0.1 µs for an ordinary text, the nine expressions take 1 to 2 µs. */
const SIGNS = /[cprs]k[-_]|:\/\/|b(?:earer|asic)\s|eyJ|gh[pousr]_|xox[abprs]-|AKIA|-----BEGIN /i

/** For texts that leave the process: a log, a terminal, an error record. */
export function redactText(text: string): string {
  if (!SIGNS.test(text)) return text
  return SHAPES.reduce((line, { shape, instead }) => line.replace(shape, instead), text)
}

function redactData(text: string): string {
  if (!SIGNS.test(text)) return text
  return SHAPES.reduce((line, { shape, strict = shape, instead }) => line.replace(strict, instead), text)
}

/** Returns whether a value has the shape of a secret. */
export function hasSecretShape(text: string): boolean {
  return redactData(text) !== text
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
