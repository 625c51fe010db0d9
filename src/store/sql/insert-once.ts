/**
 * "Insert this, or return the existing row": one statement for one row, one for many. The unique index decides which
 * caller is first, without a check before the insert.
 */
import type { EventDraft } from '../events.ts'
import type { OnceTable } from '../once.ts'
import type { AnyRow } from '../transition/stored-machine.ts'
import { type Bound, bind, collectParams, type Params } from './params.ts'
import { type PgType, readAs } from './names.ts'

export type OnceCall = { readonly row: AnyRow; readonly events: readonly EventDraft[] }
export type Found<Row> = Row & { readonly once_inserted: boolean; readonly once_same: boolean }

function returningOf<Row>(table: OnceTable<Row>): readonly string[] {
  return table.returning ?? Object.keys(table.columns)
}

/** Names the unique index, which may leave out rows without a key. */
function conflictOn<Row>({ key }: OnceTable<Row>): string {
  return `on conflict (${key.join(', ')}) where ${key.map((name) => `${name} is not null`).join(' and ')}`
}

/**
 * The second half reads with the snapshot of the whole statement: it does not see a row that was committed after the
 * statement began, although the insert conflicted with it. Then there is no row at all, and the caller repeats the statement.
 */
export function compileInsertOnce<Row>(table: OnceTable<Row>, events: number): Bound<OnceCall, Found<Row>> {
  const params = collectParams<OnceCall>()
  const columns = Object.entries(table.columns)
  const places = Object.fromEntries(columns.map(([name, type]) => [name, params.add(type, ({ row }) => row[name])]))
  const returning = returningOf(table)
  const same = table.content.map((name) => `t.${name} is not distinct from ${places[name]}`).join(' and ') || 'true'
  const text = `with fresh as (
  insert into ${table.table} (${columns.map(([name]) => name).join(', ')})
  values (${Object.values(places).join(', ')})
  ${conflictOn(table)} do nothing
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

export function onceBatch(calls: readonly OnceCall[]): Batch {
  return { calls, events: calls.flatMap((call, index) => call.events.map((event) => ({ n: index + 1, event }))) }
}

/** Returns the new rows; conflicting ones are looked up afterwards, with a snapshot that sees the existing row. */
export function compileInsertMany<Row>(table: OnceTable<Row>): Bound<Batch, Row & AnyRow> {
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
  ${conflictOn(table)} do nothing
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

export function compileFindById<Row>(table: OnceTable<Row>): Bound<AnyRow, Row> {
  const params = collectParams<AnyRow>()
  const id = params.add(table.columns[table.id] ?? 'uuid', (row) => row[table.id])
  const text = `select ${returningOf(table)
    .map((name) => `t.${name}`)
    .join(', ')} from ${table.table} as t where t.${table.id} = ${id}`
  return bind(`find_${table.table}`, text, params)
}
