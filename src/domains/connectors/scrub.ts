/** Removes what must not be seen from everything a call gives back: the secrets it used, in the forms they travel in, and whatever has the shape of one. */
import { Buffer } from 'node:buffer'
import { isJsonObject, type JsonValue } from '#kernel/json-value'
import { redactText, redactValue } from '#kernel/secret-shapes'

export type Scrubber = {
  /** From now on this text is removed. */
  learn(secret: string): void
  text(text: string): string
  value(value: JsonValue): JsonValue
}

const INSTEAD = '[secret]'

export function openScrubber(): Scrubber {
  const forms = new Set<string>()
  // Longest first: a form inside a longer one would leave the rest of it standing.
  let ordered: readonly string[] = []
  const withoutKnown = (given: string): string =>
    ordered.reduce((line, form) => (line.includes(form) ? line.replaceAll(form, INSTEAD) : line), given)
  const value = (given: JsonValue): JsonValue => {
    if (typeof given === 'string') return withoutKnown(given)
    if (Array.isArray(given)) return (given as readonly JsonValue[]).map(value)
    if (given === null || !isJsonObject(given)) return given
    return Object.fromEntries(Object.entries(given).map(([name, part]) => [withoutKnown(name), value(part)]))
  }
  return {
    learn(secret) {
      for (const form of formsOf(secret)) if (form.length >= 4) forms.add(form)
      ordered = [...forms].toSorted((a, b) => b.length - a.length)
    },
    text: (given) => redactText(withoutKnown(given)),
    // Data is used by somebody: only what surely is a secret goes.
    value: (given) => redactValue(value(given)),
  }
}

/** As it is, in JSON, in an address, as base64 (also inside a longer text, where it starts at any of three places) and as hex. */
function formsOf(secret: string): readonly string[] {
  const bytes = Buffer.from(secret, 'utf8')
  const hex = bytes.toString('hex')
  return [
    secret,
    JSON.stringify(secret).slice(1, -1),
    encodeURIComponent(secret),
    new URLSearchParams({ s: secret }).toString().slice(2),
    ...[0, 1, 2].flatMap((shift) => innerBase64(bytes, shift)),
    hex,
    hex.toUpperCase(),
  ]
}

/** The characters of base64 that depend on the secret alone when `shift` bytes stand before it in its group of three. */
function innerBase64(bytes: Buffer, shift: number): readonly string[] {
  const padded = Buffer.concat([Buffer.alloc(shift), bytes])
  const whole = padded.toString('base64').replace(/=+$/, '')
  const from = Math.ceil((shift * 8) / 6)
  const to = Math.floor((padded.length * 8) / 6)
  const inner = whole.slice(from, to)
  return [inner, inner.replaceAll('+', '-').replaceAll('/', '_')]
}
