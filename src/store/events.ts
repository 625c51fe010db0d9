/**
 * The only way to append to an event log. A log is a descriptor: its table, its closed list of types, the columns
 * filled from the event and the columns that link it to a row. Appending never opens a transaction: it joins the caller's.
 */
import { hash } from 'node:crypto'
import { KernelFault } from '#kernel/errors'
import type { Sql } from './db.ts'
import { compileAppendMany, compileAppendOne } from './sql/append-events.ts'
import { type Columns, columnName, type PgType, tableName } from './sql/names.ts'

export type EventDraft<E extends string = string> = {
  readonly eventId: string
  readonly type: E
  readonly payload: Readonly<Record<string, unknown>>
  /** The actor, e.g. `user:0197…`. */
  readonly actor: string
  /** The kind of actor, as the machine names it. */
  readonly actorKind: string
  readonly traceId: string
  readonly at: Date
  /** The log's own link columns: tenant, command, run, step … */
  readonly links?: Readonly<Record<string, unknown>>
}

type LogColumn = {
  readonly name: string
  readonly type: PgType
  readonly valueOf: (event: EventDraft) => unknown
}

export type EventLog<E extends string = string> = {
  readonly table: string
  /** The closed list: any other type is an internal error. */
  readonly types: readonly E[]
  readonly columns: readonly LogColumn[]
  readonly links: Columns
  /** The unique column that holds `eventId`; a log without one cannot detect a replay. */
  readonly id?: string
  /** The column with the payload, the path of `target_id` in it, and the column of the time. */
  readonly target: { readonly column: string; readonly path: string }
  readonly time: string
  /** Throws on a payload that does not fit its type. */
  checkPayload?(type: E, payload: Readonly<Record<string, unknown>>): void
}

/** Checks the names once, so that statements can be built from them. */
export function defineEventLog<const E extends string>(log: EventLog<E>): EventLog<E> {
  tableName(log.table)
  for (const { name } of log.columns) columnName(name)
  Object.keys(log.links).forEach(columnName)
  return log
}

/** Derives the same id from the same parts, so that a replayed step finds its event. */
export function eventIdOf(...parts: readonly string[]): string {
  const digits = hash('sha256', JSON.stringify(parts)).slice(0, 32)
  const variant = ((Number.parseInt(digits.charAt(16), 16) & 0x3) | 0x8).toString(16)
  // RFC 9562 leaves version 8 to the application.
  return [
    digits.slice(0, 8),
    digits.slice(8, 12),
    `8${digits.slice(13, 16)}`,
    `${variant}${digits.slice(17, 20)}`,
    digits.slice(20),
  ].join('-')
}

/** Throws: an event that the log does not know is a bug in the code that made it, and must roll back its transaction. */
export function checkEvent(log: EventLog, event: EventDraft): void {
  if (!log.types.includes(event.type)) {
    throw new KernelFault('event.type.unknown', `${log.table} has no event type ${event.type}`)
  }
  log.checkPayload?.(event.type, event.payload)
  if (event.actor.trim() === '') throw new KernelFault('event.actor.missing', `${event.type} has no actor`)
  if (event.traceId.trim() === '') throw new KernelFault('event.trace.missing', `${event.type} has no trace id`)
  for (const name of Object.keys(event.links ?? {})) {
    if (!Object.hasOwn(log.links, name)) throw new KernelFault('event.link.unknown', `${log.table} has no link ${name}`)
  }
}

type Appends = {
  readonly one: ReturnType<typeof compileAppendOne>
  readonly many: ReturnType<typeof compileAppendMany>
}
const compiled = new WeakMap<EventLog, { always?: Appends; once?: Appends }>()

function appendsOf(log: EventLog, once: boolean): Appends {
  const known = compiled.get(log) ?? {}
  compiled.set(log, known)
  const key = once ? 'once' : 'always'
  known[key] ??= { one: compileAppendOne(log, once), many: compileAppendMany(log, once) }
  return known[key]
}

/**
 * Appends the events in order and returns how many were new. With `once`, an event whose id exists adds
 * nothing, whatever its content: that makes a replayed step harmless.
 */
export async function appendEvents<E extends string>(
  sql: Sql,
  log: EventLog<E>,
  events: readonly EventDraft<E>[],
  { once = false }: { readonly once?: boolean } = {},
): Promise<number> {
  if (once && log.id === undefined) throw new KernelFault('event.log.no_id', `${log.table} cannot tell a replay`)
  for (const event of events) checkEvent(log, event)
  const [first] = events
  if (first === undefined) return 0
  const { one, many } = appendsOf(log, once)
  const rows =
    events.length === 1
      ? await sql.run(one.statement, one.values(first))
      : await sql.run(many.statement, many.values(events))
  return rows.length
}
