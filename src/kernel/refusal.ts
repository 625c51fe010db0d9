/**
 * A refusal is a value: an expected "no" with a stable code, what was wrong, where, and what to do next.
 * Errors (see `errors.ts`) are for what nobody should see twice.
 */
import type { RefusalCode } from './refusal-codes.ts'

export type Refusal = {
  readonly ok: false
  readonly code: RefusalCode
  /** What was wrong, in one plain sentence. Never echoes more than 64 characters of input (see `quote`). */
  readonly reason: string
  /** Where: a JSON path (`payload.items[2].price`), a field, a flag, an environment variable. */
  readonly path?: string
  /** What to do next. */
  readonly hint?: string
  /** Facts for machines: allowed values, the winner's id, a retry time. Never secrets, never raw input. */
  readonly facts?: Readonly<Record<string, unknown>>
}

export type Accepted<T> = { readonly ok: true; readonly value: T }
export type Decision<T> = Accepted<T> | Refusal

export function accept<T>(value: T): Accepted<T> {
  return { ok: true, value }
}

export function refuse(code: RefusalCode, reason: string, more: Omit<Refusal, 'ok' | 'code' | 'reason'> = {}): Refusal {
  return { ok: false, code, reason, ...more }
}

/** Shows a piece of foreign input safely: at most 64 characters, control characters made visible. */
export function quote(input: string): string {
  const visible = Array.from(input.slice(0, 64), (char) => {
    const code = char.codePointAt(0) ?? 0
    const hidden =
      code < 0x20 || (code >= 0x7f && code <= 0x9f) || (code >= 0x200b && code <= 0x200f) || code === 0xfeff
    const steering = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069)
    return hidden || steering || (code >= 0xd800 && code <= 0xdfff) ? `\\u${code.toString(16).padStart(4, '0')}` : char
  }).join('')
  return input.length > 64 ? `"${visible}…"` : `"${visible}"`
}
