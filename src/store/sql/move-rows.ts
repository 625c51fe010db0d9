/**
 * Many moves of one machine with all their events, as one statement. The rows are found by `id = any($1)` and joined to
 * their values afterwards: driving the update from `unnest` alone let a cached plan read the whole table.
 */
import type { EventDraft } from '../events.ts'
import type { PlannedMove } from '../transition/plan-move.ts'
import { type AnyStored, columnList, movedColumns } from './move-row.ts'
import type { Columns, PgType } from './names.ts'
import { type Bound, bind, collectParams, type Params } from './params.ts'

type Batch = {
  readonly moves: readonly PlannedMove[]
  /** The events of all moves in order, each with the place (from 1) of its move. */
  readonly events: readonly { readonly n: number; readonly event: EventDraft }[]
}

export function batchOf(moves: readonly PlannedMove[]): Batch {
  return { moves, events: moves.flatMap((move, index) => move.events.map((event) => ({ n: index + 1, event }))) }
}

export function compileMoves<Row>(stored: AnyStored<Row>): Bound<Batch, Row & { readonly n: number }> {
  const params = collectParams<Batch>()
  const { idType = 'uuid', tenantType = 'uuid', settable = {}, lock = {}, guards = {}, fences = {} } = stored
  const perMove = (type: PgType, valueOf: (move: PlannedMove) => unknown) =>
    params.addList(type, ({ moves }) => moves.map(valueOf))
  const ids = perMove(idType, (move) => move.id)
  const input: Record<string, string> = {
    id: ids,
    ...(stored.tenant ? { tenant: perMove(tenantType, (move) => move.tenant) } : {}),
    from_state: perMove('text', (move) => move.from),
    to_state: perMove('text', (move) => move.to),
    ...(stored.stateType ? { state_type: perMove('text', (move) => move.stateType) } : {}),
    at: perMove('timestamptz', (move) => move.at),
    extra: perMove('jsonb', extraOf),
  }
  Object.values(lock).forEach((type, index) => {
    input[`lock_${index}`] = perMove(type, (move) => move.lock[index])
  })
  const assignments = [
    `${stored.state} = i.to_state`,
    ...(stored.stateType ? [`${stored.stateType} = i.state_type`] : []),
    ...(stored.touched ? [`${stored.touched} = i.at`] : []),
    ...(stored.machine.lock === 'version' ? Object.keys(lock).map((name) => `${name} = t.${name} + 1`) : []),
    ...timedAndSettable(stored, settable),
  ]
  const conditions = [
    `t.${stored.id} = any(${ids})`,
    `t.${stored.id} = i.id`,
    ...(stored.tenant ? [`t.${stored.tenant} = i.tenant`] : []),
    `t.${stored.state} = i.from_state`,
    ...Object.keys(lock).map((name, index) => `t.${name} is not distinct from i.lock_${index}`),
    ...Object.entries(fences).map(
      ([name, type]) =>
        `(i.extra->'fence' ? '${name}' is not true or t.${name} = ${fromJson(type, `i.extra->'fence'`, name)})`,
    ),
    ...Object.entries(guards).map(([name, guard]) => `(i.extra->'guards' ? '${name}' is not true or (${guard}))`),
  ]
  // Events happen when their move does, so its time need not be sent twice; a row that comes back whole has no room for it.
  const hasTime = stored.returning !== undefined
  const text = `with i as (
  select * from unnest(${Object.values(input).join(', ')}) with ordinality as i(${Object.keys(input).join(', ')}, n)
), moved as (
  update ${stored.table} as t set
    ${assignments.join(',\n    ')}
  from i where ${conditions.join('\n    and ')}
  returning ${columnList('t', movedColumns(stored))}, i.n::integer as n${hasTime ? ', i.at as moved_at' : ''}
)${stored.log ? `, logged as (\n  ${insertEvents(stored.log, params, hasTime)}\n)` : ''}
select ${columnList('m', stored.returning && [...stored.returning, 'n'])} from moved as m`
  return bind(`moves_${stored.machine.name}`, text, params)
}

/** What only some moves carry travels as one document, so that one text serves every shape. */
function extraOf({ set, add, guards, fence }: PlannedMove): unknown {
  const isEmpty = guards.length === 0 && [set, add, fence].every((part) => Object.keys(part).length === 0)
  return isEmpty ? null : { set, add, guards, fence }
}

/** Stamps, clears and what the caller sets may meet on one column; SQL allows one assignment, so one expression decides. */
function timedAndSettable<Row>({ machine, touched }: AnyStored<Row>, settable: Columns): string[] {
  const timed = [...(machine.stamps ?? []), ...(machine.clears ?? [])].map(({ column }) => column)
  const columns = [...new Set([...Object.keys(settable), ...timed])].filter((column) => column !== touched)
  const list = (states: readonly string[]) => states.map((state) => `'${state}'`).join(', ')
  return columns.map((column) => {
    const type = settable[column]
    const cases = [
      ...(type ? [`when i.extra->'set' ? '${column}' then ${fromJson(type, `i.extra->'set'`, column)}`] : []),
      ...(machine.stamps ?? [])
        .filter((stamp) => stamp.column === column)
        .map(
          ({ on, once }) => `when i.to_state in (${list(on)}) then ${once ? `coalesce(t.${column}, i.at)` : 'i.at'}`,
        ),
      ...(machine.clears ?? [])
        .filter((clear) => clear.column === column)
        .map(({ on }) => `when i.to_state in (${list(on)}) then null`),
      ...(type && isNumber(type)
        ? [`when i.extra->'add' ? '${column}' then t.${column} + ${fromJson(type, `i.extra->'add'`, column)}`]
        : []),
    ]
    return `${column} = case ${cases.join(' ')} else t.${column} end`
  })
}

const isNumber = (type: PgType) => type === 'integer' || type === 'bigint' || type === 'numeric'

function fromJson(type: PgType, document: string, column: string): string {
  if (type === 'jsonb') return `nullif(${document}->'${column}', 'null'::jsonb)`
  return `(${document}->>'${column}')::${type}`
}

function insertEvents(
  { log, links }: NonNullable<AnyStored<unknown>['log']>,
  params: Params<Batch>,
  hasTime: boolean,
): string {
  const sent = log.columns.filter(({ name }) => !hasTime || name !== log.time)
  const columns = sent.map((column) => column.name)
  const lists = sent.map((column) =>
    params.addList(column.type, ({ events }) => events.map(({ event }) => column.valueOf(event))),
  )
  const places = params.addList('integer', ({ events }) => events.map(({ n }) => n))
  const fromMove = [...Object.entries(links), ...(hasTime ? [[log.time, 'moved_at'] as const] : [])]
  return `insert into ${log.table} (${[...columns, ...fromMove.map(([name]) => name)].join(', ')})
  select ${columns.map((name) => `e.${name}`).join(', ')}${fromMove.map(([, column]) => `, m.${column}`).join('')}
  from unnest(${lists.join(', ')}, ${places}) with ordinality as e(${columns.join(', ')}, move_n, event_n)
  join moved as m on m.n = e.move_n
  order by e.event_n`
}

/** The rows that the losers of a batch lost to. */
export function compileFindMany<Row>(stored: AnyStored<Row>): Bound<readonly PlannedMove[], Row> {
  const params = collectParams<readonly PlannedMove[]>()
  const ids = params.addList(stored.idType ?? 'uuid', (moves) => moves.map((move) => move.id))
  const text = `select ${columnList('t', stored.returning && [...new Set([...stored.returning, ...(stored.tenant ? [stored.tenant] : [])])])}
from ${stored.table} as t where t.${stored.id} = any(${ids})`
  return bind(`find_all_${stored.machine.name}`, text, params)
}

/** Which of these events are in the log: how a retried move learns that its first attempt had committed. */
export function compileFindEvents(log: {
  readonly table: string
  readonly id: string
}): Bound<readonly string[], { readonly id: string }> {
  const params = collectParams<readonly string[]>()
  const ids = params.addList('uuid', (list) => list)
  return bind(
    `find_events_${log.table}`,
    `select ${log.id} as id from ${log.table} where ${log.id} = any(${ids})`,
    params,
  )
}
