/**
 * A refusal is a value: an expected failure with a stable code, the reason, the place, and the next step.
 * Errors (see `errors.ts`) are for bugs.
 */
import type { kernelRefusals } from './refusals.ts'
import { showQuoted } from './visible-text.ts'

/** The API turns a kind into an HTTP status, the CLI into an exit code. */
export type RefusalKind =
  | 'malformed' // 400, exit 65: the bytes cannot be parsed
  | 'unauthenticated' // 401, exit 77
  | 'forbidden' // 403, exit 77
  | 'not_found' // 404, exit 65: also the answer for a foreign id
  | 'method' // 405, exit 64
  | 'timeout' // 408, exit 75
  | 'conflict' // 409, exit 75: not in this state, or not now
  | 'gone' // 410, exit 65: existed, and is stored elsewhere now
  | 'too_large' // 413, exit 65
  | 'unsupported' // 415, exit 65
  | 'range' // 416, exit 65: the requested part does not exist
  | 'invalid' // 422, exit 65: well-formed but not allowed
  | 'rate' // 429, exit 75
  | 'headers_too_large' // 431, exit 65
  | 'unavailable' // 503, exit 69
  | 'usage' // CLI only, exit 64
  | 'configuration' // start-up only, exit 78
  | 'internal' // 500, exit 70: internal error

/**
 * The `refusals.ts` of a room: each code with its kind and its hint. A code never changes its meaning and is never
 * reused.
 */
export type RefusalTable = Readonly<Record<string, readonly [kind: RefusalKind, hint: string]>>

/**
 * The tables of all rooms. Each room adds its own (`declare module '#kernel/refusal'`), so that `refuse` knows the codes
 * of every room although the kernel imports none; `src/refusals` holds the values.
 */
export interface RefusalTables {
  kernel: typeof kernelRefusals
}

export type RefusalCode = { [Room in keyof RefusalTables]: keyof RefusalTables[Room] }[keyof RefusalTables]

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

/** For a room that checks its own refusals and those of the rooms it calls; `src/refusals` knows all of them. */
export function isUnavailable(tables: readonly RefusalTable[], code: RefusalCode): boolean {
  return tables.some((table) => table[code]?.[0] === 'unavailable')
}

export function isRefusal(value: unknown): value is Refusal {
  if (typeof value !== 'object' || value === null) return false
  return 'ok' in value && value.ok === false && 'code' in value && 'reason' in value
}

/** Shows foreign input safely: at most 64 characters, on one line, hidden characters made visible. */
export function quote(input: string): string {
  const visible = showQuoted(input.slice(0, 64))
  return input.length > 64 ? `"${visible}…"` : `"${visible}"`
}
