/**
 * Inserts a row once: the same key and content return the existing row; the same key with other content is refused. The unique
 * index decides, in one statement; of twenty parallel callers one inserts.
 */
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import type { Sql } from './db.ts'
import { checkEvent, type EventDraft } from './events.ts'
import { compileInsertOnce, type Found, type OnceCall } from './sql/insert-once.ts'
import { type Columns, columnName, tableName } from './sql/names.ts'
import type { Bound } from './sql/params.ts'
import type { AnyRow, LogBinding, RowType } from './transition/stored-machine.ts'

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
    throw new KernelFault('store.once.binding', `${table.table}.${strange} is not among its columns`)
  if (table.key.length === 0) throw new KernelFault('store.once.binding', `${table.table} has no key`)
  return table
}

/** The winner commits within one statement of ours, so the second attempt finds it; more than a few mean a broken key. */
const LOOKS_MAX = 10
const compiled = new WeakMap<object, Map<number, Bound<OnceCall, unknown>>>()

function statementOf<Row>(table: OnceTable<Row>, events: number): Bound<OnceCall, Found<Row>> {
  const known = compiled.get(table) ?? new Map<number, Bound<OnceCall, unknown>>()
  compiled.set(table, known)
  const bound = known.get(events) ?? compileInsertOnce(table, events)
  known.set(events, bound)
  // The map belongs to this table, whose rows are `Row`.
  return bound as Bound<OnceCall, Found<Row>>
}

export async function insertOnce<Row>(
  sql: Sql,
  table: OnceTable<Row>,
  row: AnyRow,
  events: readonly EventDraft[] = [],
): Promise<Decision<Once<Row>>> {
  checkInsert(table, row, events)
  const { statement, values } = statementOf(table, events.length)
  for (let look = 1; look <= LOOKS_MAX; look++) {
    const [found] = await sql.run(statement, values({ row, events }))
    if (found === undefined) continue
    const { once_inserted, once_same, ...stored } = found
    // Without the two marks it is the row of the table.
    if (once_same) return accept({ inserted: once_inserted, row: stored as Row })
    return refuseReused(table, stored)
  }
  throw new KernelFault('store.once.unsettled', `${table.table} refuses a row whose key nobody has`)
}

/** The id of the first row is for callers who may read it; the API decides that. */
function refuseReused<Row>(table: OnceTable<Row>, first: AnyRow): Refusal {
  return refuse('key_reused', 'This key was used before for another request.', {
    hint: 'Use a new key for a new request, and the same key only to repeat the same request.',
    facts: first[table.id] === undefined ? {} : { first: first[table.id] },
  })
}

export function checkInsert<Row>(table: OnceTable<Row>, row: AnyRow, events: readonly EventDraft[]): void {
  const strange = Object.keys(row).find((name) => !Object.hasOwn(table.columns, name))
  if (strange !== undefined)
    throw new KernelFault('store.column.unknown', `${table.table}.${strange} is not among its columns`)
  if (events.length > 0 && table.log === undefined)
    throw new KernelFault('store.once.binding', `${table.table} has no event log`)
  for (const event of events) if (table.log) checkEvent(table.log.log, event)
}
