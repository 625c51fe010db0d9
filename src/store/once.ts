/**
 * Inserts a row once: the same key and content return the existing row; the same key with other content is refused. The unique index
 * decides, in one statement; of twenty parallel callers one inserts. A lane does the same for many callers in one commit.
 */
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { checkEvent, type EventDraft } from './events.ts'
import { sqlStateOf } from './faults.ts'
import {
  type Bound,
  bind,
  collectParams,
  type Columns,
  columnName,
  type Params,
  type Sql,
  tableName,
} from './statement.ts'
import type { AnyRow, LogBinding, RowType } from './transition.ts'

export type OnceTable<Row> = {
  readonly table: string
  /** The primary key, made by the caller. */
  readonly id: string
  /** The columns that an insert writes. */
  readonly columns: Columns
  /** The columns of the unique index. A row with a null among them never conflicts: it is always new. */
  readonly key: readonly string[]
  /** The columns that must be equal for two requests with one key to be the same: usually one fingerprint. */
  readonly content: readonly string[]
  readonly returning?: readonly string[]
  /** Events that are written with a new row, and only then. */
  readonly log?: Omit<LogBinding, 'target'>
  readonly row?: RowType<Row>
}

export type Once<Row> = { readonly inserted: boolean; readonly row: Row }

export function onceTable<Row = AnyRow>(table: OnceTable<Row>): OnceTable<Row> {
  tableName(table.table)
  for (const name of [...Object.keys(table.columns), ...(table.returning ?? [])]) columnName(name)
  const strange = [table.id, ...table.key, ...table.content].find((name) => !Object.hasOwn(table.columns, name))
  if (strange !== undefined)
    throw new KernelFault('store.once.binding', `${table.table} does not list its column ${strange}.`)
  if (table.key.length === 0) throw new KernelFault('store.once.binding', `${table.table} has no key.`)
  return table
}

const ATTEMPTS_MAX = 10

/**
 * Repeats an insert that conflicts with a row which its snapshot does not show. The winner commits within one statement of ours, so the second
 * attempt finds it; more than a few mean a broken key.
 */
export async function untilSettled<T>(table: string, attempt: () => Promise<T | undefined>): Promise<T> {
  for (let n = 1; n <= ATTEMPTS_MAX; n++) {
    const settled = await attempt()
    if (settled !== undefined) return settled
  }
  throw new KernelFault('store.once.unsettled', `${table} refuses a row although no row has its key.`)
}

const compiled = new WeakMap<object, Map<number, Bound<OnceCall, unknown>>>()

function statementOf<Row>(table: OnceTable<Row>, events: number): Bound<OnceCall, FoundOnce<Row>> {
  const known = compiled.get(table) ?? new Map<number, Bound<OnceCall, unknown>>()
  compiled.set(table, known)
  const bound = known.get(events) ?? compileInsertOnce(table, events)
  known.set(events, bound)
  // The map belongs to this table, whose rows are `Row`.
  return bound as Bound<OnceCall, FoundOnce<Row>>
}

export async function insertOnce<Row>(
  sql: Sql,
  table: OnceTable<Row>,
  row: AnyRow,
  events: readonly EventDraft[] = [],
): Promise<Decision<Once<Row>>> {
  checkInsert(table, row, events)
  const { statement, values } = statementOf(table, events.length)
  const found = await untilSettled(table.table, async () => (await sql.run(statement, values({ row, events })))[0])
  const { once_inserted, once_same, ...stored } = found
  // Without the two marks it is the row of the table.
  return once_same ? accept({ inserted: once_inserted, row: stored as Row }) : refuseReused(table, stored)
}

/** The id of the first row is for callers who may read it; the API decides that. */
function refuseReused<Row>(table: OnceTable<Row>, first: AnyRow): Refusal {
  return refuse('key_reused', 'This key was used before for another request.', {
    hint: 'Use a new key for a new request, and the same key only to repeat the same request.',
    facts: first[table.id] === undefined ? {} : { first: first[table.id] },
  })
}

function checkInsert<Row>(table: OnceTable<Row>, row: AnyRow, events: readonly EventDraft[]): void {
  const strange = Object.keys(row).find((name) => !Object.hasOwn(table.columns, name))
  if (strange !== undefined) throw new KernelFault('store.column.unknown', `${table.table} has no column ${strange}.`)
  if (events.length > 0 && table.log === undefined)
    throw new KernelFault('store.once.binding', `${table.table} has no event log.`)
  for (const event of events) if (table.log) checkEvent(table.log.log, event)
}

const LOCK_NOT_AVAILABLE = '55P03'

/** The key is being written by another open transaction, so its existence is unknown. */
export function refuseInProgress(error: unknown): Refusal | undefined {
  if (sqlStateOf(error) !== LOCK_NOT_AVAILABLE) return undefined
  return refuse('key_in_progress', 'Another request with this key is being written.', {
    path: 'idempotency_key',
    hint: 'Send the same request again in a second.',
    facts: { retry_after_s: 1 },
  })
}

type OnceCall = { readonly row: AnyRow; readonly events: readonly EventDraft[] }
type FoundOnce<Row> = Row & { readonly once_inserted: boolean; readonly once_same: boolean }

function returningOf<Row>(table: OnceTable<Row>): readonly string[] {
  return table.returning ?? Object.keys(table.columns)
}

/**
 * The conflict names no index: the id may follow from the key, and of two concurrent inserts the later one may meet the id
 * before the key. A conflict with the id of a row with another key ends in `store.once.unsettled`.
 *
 * The second half reads with the snapshot of the whole statement: it does not see a row that was committed after the
 * statement began, although the insert conflicted with it. Then there is no row at all, and the caller repeats the statement.
 */
function compileInsertOnce<Row>(table: OnceTable<Row>, events: number): Bound<OnceCall, FoundOnce<Row>> {
  const params = collectParams<OnceCall>()
  const columns = Object.entries(table.columns)
  const places = Object.fromEntries(columns.map(([name, type]) => [name, params.add(type, ({ row }) => row[name])]))
  const returning = returningOf(table)
  const same = table.content.map((name) => `t.${name} is not distinct from ${places[name]}`).join(' and ') || 'true'
  const text = `with fresh as (
  insert into ${table.table} (${columns.map(([name]) => name).join(', ')})
  values (${Object.values(places).join(', ')})
  on conflict do nothing
  returning *
)${events > 0 ? `, logged as (\n  ${insertEvents(table, events, params)}\n)` : ''}
select true as once_inserted, true as once_same, ${returning.map((name) => `f.${name}`).join(', ')} from fresh as f
union all
select false, ${same}, ${returning.map((name) => `t.${name}`).join(', ')} from ${table.table} as t
where ${table.key.map((name) => `t.${name} = ${places[name]}`).join(' and ')} and not exists (select from fresh)`
  return bind(`once_${table.table}`, text, params)
}

function insertEvents<Row>(table: OnceTable<Row>, count: number, params: Params<OnceCall>): string {
  const { log, links } = table.log as NonNullable<typeof table.log>
  const columns = log.columns.map((column) => column.name)
  const rows = Array.from({ length: count }, (_, index) =>
    log.columns.map((column) =>
      params.add(column.type, (call) => {
        const event = call.events[index]
        return event && column.valueOf(event)
      }),
    ),
  )
  return `insert into ${log.table} (${[...columns, ...Object.keys(links)].join(', ')})
  select ${columns.map((name) => `e.${name}`).join(', ')}${Object.values(links)
    .map((column) => `, f.${column}`)
    .join('')}
  from fresh as f cross join (values ${rows.map((row) => `(${row.join(', ')})`).join(', ')}) as e(${columns.join(', ')})`
}
