/**
 * Inserts a row once: the same key and content return the existing row; the same key with other content is refused. The unique index
 * decides, in one statement; of twenty parallel callers one inserts. A lane does the same for many callers in one commit.
 */
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import type { Db } from './db.ts'
import { checkEvent, type EventDraft } from './events.ts'
import { sqlStateOf } from './faults.ts'
import { openLane, type Submitted } from './lane.ts'
import {
  type Bound,
  bind,
  collectParams,
  type Columns,
  columnName,
  type Params,
  type PgType,
  readAs,
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

/** The winner commits within one statement of ours, so the second attempt finds it; more than a few mean a broken key. */
const LOOKS_MAX = 10
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
  for (let look = 1; look <= LOOKS_MAX; look++) {
    const [found] = await sql.run(statement, values({ row, events }))
    if (found === undefined) continue
    const { once_inserted, once_same, ...stored } = found
    // Without the two marks it is the row of the table.
    if (once_same) return accept({ inserted: once_inserted, row: stored as Row })
    return refuseReused(table, stored)
  }
  throw new KernelFault('store.once.unsettled', `${table.table} refuses a row although no row has its key.`)
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

export type InsertLane<Row> = {
  /** The same guarantee as `insertOnce`. */
  insert(row: AnyRow, events?: readonly EventDraft[]): Promise<Decision<Once<Row>> | Refusal>
  close(): Promise<void>
}

const UNIQUE_VIOLATION = '23505'
const LOCK_NOT_AVAILABLE = '55P03'
/** How long a batch waits for another open transaction with one of its keys; the rest of the batch waits with it. */
const KEY_WAIT = "set lock_timeout = '500ms'"

/** The key is being written by another open transaction, so its existence is unknown. */
export function refuseInProgress(error: unknown): Refusal | undefined {
  if (sqlStateOf(error) !== LOCK_NOT_AVAILABLE) return undefined
  return refuse('key_in_progress', 'Another request with this key is being written.', {
    path: 'idempotency_key',
    hint: 'Send the same request again in a second.',
    facts: { retry_after_s: 1 },
  })
}

/** Inserts new rows of one table, each with its events, for many callers in one commit. */
export function openInsertLane<Row>(db: Db, table: OnceTable<Row>): InsertLane<Row> {
  const batch = compileInsertMany<Row>(table)
  const findById = compileFindById<Row>(table)

  async function flush(
    sql: Sql,
    items: readonly Submitted<OnceCall>[],
    tell: (index: number, answer: Decision<Once<Row>>) => void,
  ): Promise<Decision<Once<Row>>[]> {
    if (items.length === 1) return Promise.all(items.map((submitted) => insertOne(sql, submitted)))
    const rows = await sql.run(batch.statement, batch.values(onceBatch(items.map(({ item }) => item))))
    const fresh = new Map(rows.map((row) => [String(row[table.id]), row]))
    const answers = items.map(({ item }): Decision<Once<Row>> | undefined => {
      const row = fresh.get(String(item.row[table.id]))
      return row && { ok: true, value: { inserted: true, row } }
    })
    answers.forEach((answer, index) => answer && tell(index, answer))
    const all: Decision<Once<Row>>[] = []
    for (const [index, submitted] of items.entries()) {
      // A taken key is rare; its row is looked up one by one.
      const answer = answers[index] ?? (await insertOne(sql, submitted))
      tell(index, answer)
      all.push(answer)
    }
    return all
  }

  async function insertOne(sql: Sql, { item, retried }: Submitted<OnceCall>): Promise<Decision<Once<Row>>> {
    const insert = () => insertOnce(sql, table, item.row, item.events)
    if (!retried) return insert()
    const own = await findOwn(sql, item.row)
    if (own !== undefined) return own
    // The statement of the broken connection may commit only now, while ours waits for it.
    const late = await insert().catch(async (error: unknown) => {
      const committed = sqlStateOf(error) === UNIQUE_VIOLATION ? await findOwn(sql, item.row) : undefined
      if (committed === undefined) throw error
      return committed
    })
    return late.ok && !late.value.inserted ? ((await findOwn(sql, item.row)) ?? late) : late
  }

  /** The caller creates the ids: a row with our id was inserted by us before the connection broke. */
  async function findOwn(sql: Sql, row: AnyRow): Promise<Decision<Once<Row>> | undefined> {
    const [found] = await sql.run(findById.statement, findById.values(row))
    return found === undefined ? undefined : { ok: true, value: { inserted: true, row: found } }
  }

  const keyOf = (row: AnyRow) =>
    table.key.some((name) => row[name] === null || row[name] === undefined)
      ? undefined
      : JSON.stringify(table.key.map((name) => row[name]))
  const lane = openLane<OnceCall, Decision<Once<Row>>>(db, {
    name: table.table,
    // Two rows with one key go into two batches: the second must find the first.
    keyOf: ({ row }) => keyOf(row),
    settings: KEY_WAIT,
    flush,
    retrySafe: true,
  })

  return {
    async insert(row, events = []) {
      checkInsert(table, row, events)
      try {
        return await lane.submit({ row, events })
      } catch (error) {
        const refusal = keyOf(row) === undefined ? undefined : refuseInProgress(error)
        if (refusal) return refusal
        throw error
      }
    },
    close: () => lane.close(),
  }
}

type OnceCall = { readonly row: AnyRow; readonly events: readonly EventDraft[] }
type FoundOnce<Row> = Row & { readonly once_inserted: boolean; readonly once_same: boolean }

function returningOf<Row>(table: OnceTable<Row>): readonly string[] {
  return table.returning ?? Object.keys(table.columns)
}

/**
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
  on conflict (${table.key.join(', ')}) do nothing
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

type Batch = {
  readonly calls: readonly OnceCall[]
  readonly events: readonly { readonly n: number; readonly event: EventDraft }[]
}

function onceBatch(calls: readonly OnceCall[]): Batch {
  return { calls, events: calls.flatMap((call, index) => call.events.map((event) => ({ n: index + 1, event }))) }
}

/** Returns the new rows; conflicting ones are looked up afterwards, with a snapshot that sees the existing row. */
function compileInsertMany<Row>(table: OnceTable<Row>): Bound<Batch, Row & AnyRow> {
  const params = collectParams<Batch>()
  const columns = Object.entries(table.columns)
  const names = columns.map(([name]) => name)
  const perCall = (type: PgType, valueOf: (call: OnceCall) => unknown) =>
    params.addList(type, ({ calls }) => calls.map(valueOf))
  const lists = columns.map(([name, type]) => perCall(type, ({ row }) => row[name]))
  const ids = lists[names.indexOf(table.id)] ?? ''
  const back = [...new Set([table.id, ...returningOf(table)])]
  const logged = table.log ? `, logged as (\n  ${insertManyEvents(table, ids, params)}\n)` : ''
  const text = `with fresh as (
  insert into ${table.table} (${names.join(', ')})
  select ${columns.map(([name, type]) => readAs(type, name)).join(', ')} from unnest(${lists.join(', ')}) with ordinality as i(${names.join(', ')}, n)
  order by n
  on conflict (${table.key.join(', ')}) do nothing
  returning *
)${logged}
select ${back.map((name) => `f.${name}`).join(', ')} from fresh as f`
  return bind(`insert_all_${table.table}`, text, params)
}

function insertManyEvents<Row>(table: OnceTable<Row>, ids: string, params: Params<Batch>): string {
  const { log, links } = table.log as NonNullable<typeof table.log>
  const columns = log.columns.map((column) => column.name)
  const lists = log.columns.map((column) =>
    params.addList(column.type, ({ events }) => events.map(({ event }) => column.valueOf(event))),
  )
  const places = params.addList('integer', ({ events }) => events.map(({ n }) => n))
  return `insert into ${log.table} (${[...columns, ...Object.keys(links)].join(', ')})
  select ${columns.map((name) => `e.${name}`).join(', ')}${Object.values(links)
    .map((column) => `, f.${column}`)
    .join('')}
  from unnest(${lists.join(', ')}, ${places}) with ordinality as e(${columns.join(', ')}, call_n, event_n)
  join unnest(${ids}) with ordinality as i(id, n) on i.n = e.call_n
  join fresh as f on f.${table.id} = i.id
  order by e.event_n`
}

function compileFindById<Row>(table: OnceTable<Row>): Bound<AnyRow, Row> {
  const params = collectParams<AnyRow>()
  const id = params.add(table.columns[table.id] ?? 'uuid', (row) => row[table.id])
  const text = `select ${returningOf(table)
    .map((name) => `t.${name}`)
    .join(', ')} from ${table.table} as t where t.${table.id} = ${id}`
  return bind(`find_${table.table}`, text, params)
}
