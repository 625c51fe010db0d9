/**
 * A refusal is a value: an expected "no" with a stable code, what was wrong, where, and what to do next.
 * Errors (see `errors.ts`) are for what nobody should see twice.
 */
import type { RefusalCode } from './refusal-codes.ts'
import { showQuoted } from './visible-text.ts'

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

export function isRefusal(value: unknown): value is Refusal {
  if (typeof value !== 'object' || value === null) return false
  return 'ok' in value && value.ok === false && 'code' in value && 'reason' in value
}

/** Shows a piece of foreign input safely: at most 64 characters, on one line, hidden characters made visible. */
export function quote(input: string): string {
  const visible = showQuoted(input.slice(0, 64))
  return input.length > 64 ? `"${visible}…"` : `"${visible}"`
}
