/**
 * The only way to append to an event log. A log is a descriptor: its table, its closed list of types, the columns
 * filled from the event and the columns that link it to a row. Appending never opens a transaction: it joins the caller's.
 */
import { hash } from 'node:crypto'
import { KernelFault } from '#kernel/errors'
import {
  type Bound,
  bind,
  collectParams,
  type Columns,
  columnName,
  type PgType,
  type Sql,
  tableName,
} from './statement.ts'

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
  /** Of a step of an agent. */
  readonly measures?: StepMeasures
}

type StepMeasures = Partial<Record<'tool_name' | 'latency_ms' | 'token_usage' | 'cost_units', unknown>>

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
  /** The column of the time. */
  readonly time: string
  /** Throws on a payload that does not match its type. */
  checkPayload?(type: E, payload: Readonly<Record<string, unknown>>): void
}

/** Checks the names once, so that statements can be built from them. */
export function defineEventLog<const E extends string>(log: EventLog<E>): EventLog<E> {
  tableName(log.table)
  for (const { name } of log.columns) columnName(name)
  Object.keys(log.links).forEach(columnName)
  return log
}

type EventPurpose = 'event' | 'audit' | 'agent_step'

/**
 * An event in `concord.journal`, the one log of the events, the audit and the agent steps of commands and of everything they create. A row
 * holds the events of one commit about one thing, in order; the view `concord.domain_events` shows them one by one.
 */
export type JournalEvent = {
  readonly type: string
  /** Left out: `event`. */
  readonly purpose?: EventPurpose
  readonly actor: string
  readonly payload: Readonly<Record<string, unknown>>
}

/** The audit types that every command has. They are found by reading the newest rows, so they need no index. */
export const COMMON_AUDIT_TYPES: readonly string[] = ['command_created', 'policy_evaluated', 'effect_executed']

/** The value of the column `audit_type` for a row with this event. */
export function auditTypeOf({ type, purpose }: Pick<JournalEvent, 'type' | 'purpose'>): string | null {
  return purpose === 'audit' && !COMMON_AUDIT_TYPES.includes(type) ? type : null
}

/** Returns the log with a closed list of event types. The purpose of a type is declared only here. */
export function domainEventLog<const E extends string>(purposes: Readonly<Record<E, EventPurpose>>): EventLog<E> {
  const purposeOf = (type: string): { readonly purpose?: EventPurpose } => {
    if (!Object.hasOwn(purposes, type))
      throw new KernelFault('event.type.unknown', `The event type ${type} has no purpose.`)
    const purpose = purposes[type as E]
    return purpose === 'event' ? {} : { purpose }
  }
  return defineEventLog({
    table: 'concord.journal',
    types: Object.keys(purposes) as E[],
    id: 'entry_id',
    time: 'created_at',
    columns: [
      { name: 'entry_id', type: 'uuid', valueOf: (event) => event.eventId },
      { name: 'trace_id', type: 'text', valueOf: (event) => event.traceId },
      { name: 'created_at', type: 'timestamptz', valueOf: (event) => event.at },
      { name: 'audit_type', type: 'text', valueOf: ({ type }) => auditTypeOf({ type, ...purposeOf(type) }) },
      {
        name: 'events',
        type: 'json',
        valueOf: ({ type, actor, payload, measures }): JournalEvent[] => [
          { type, ...purposeOf(type), actor, payload, ...measures },
        ],
      },
    ],
    links: {
      workspace_id: 'uuid',
      command_id: 'uuid',
      agent_run_id: 'uuid',
      swarm_run_id: 'uuid',
      step_index: 'integer',
    },
  })
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

/** Throws, because an event type outside the closed list is a bug and must roll back the transaction. */
export function checkEvent(log: EventLog, event: EventDraft): void {
  if (!log.types.includes(event.type)) {
    throw new KernelFault('event.type.unknown', `${log.table} has no event type ${event.type}.`)
  }
  log.checkPayload?.(event.type, event.payload)
  if (event.actor.trim() === '') throw new KernelFault('event.actor.missing', `The event ${event.type} has no actor.`)
  if (event.traceId.trim() === '')
    throw new KernelFault('event.trace.missing', `The event ${event.type} has no trace id.`)
  for (const name of Object.keys(event.links ?? {})) {
    if (!Object.hasOwn(log.links, name))
      throw new KernelFault('event.link.unknown', `${log.table} has no link ${name}.`)
  }
}

/** The values of an event by column. */
export function eventColumns(log: EventLog, event: EventDraft): Readonly<Record<string, unknown>> {
  checkEvent(log, event)
  return { ...Object.fromEntries(log.columns.map(({ name, valueOf }) => [name, valueOf(event)])), ...event.links }
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
  if (once && log.id === undefined)
    throw new KernelFault('event.log.no_id', `${log.table} has no id by which it could detect a replay.`)
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

type Appended = { readonly appended: true }

function onceClause(log: EventLog, once: boolean): string {
  return once ? ` on conflict (${log.id}) do nothing` : ''
}

function compileAppendOne(log: EventLog, once: boolean): Bound<EventDraft, Appended> {
  const params = collectParams<EventDraft>()
  const links = Object.entries(log.links)
  const places = [
    ...log.columns.map((column) => params.add(column.type, column.valueOf)),
    ...links.map(([name, type]) => params.add(type, (event) => event.links?.[name])),
  ]
  const names = [...log.columns.map((column) => column.name), ...links.map(([name]) => name)]
  const text = `insert into ${log.table} (${names.join(', ')})
values (${places.join(', ')})${onceClause(log, once)}
returning true as appended`
  return bind(`append_${log.table}`, text, params)
}

/** In the order of the list, so that `seq` within one statement follows it. */
function compileAppendMany(log: EventLog, once: boolean): Bound<readonly EventDraft[], Appended> {
  const params = collectParams<readonly EventDraft[]>()
  const links = Object.entries(log.links)
  const lists = [
    ...log.columns.map((column) => params.addList(column.type, (events) => events.map(column.valueOf))),
    ...links.map(([name, type]) => params.addList(type, (events) => events.map((event) => event.links?.[name]))),
  ]
  const names = [...log.columns.map((column) => column.name), ...links.map(([name]) => name)].join(', ')
  const text = `insert into ${log.table} (${names})
select ${names} from unnest(${lists.join(', ')}) with ordinality as e(${names}, n)
order by n${onceClause(log, once)}
returning true as appended`
  return bind(`append_all_${log.table}`, text, params)
}
