/**
 * One move of one row with its events, as one statement: compare, set, stamp, append. One round trip, one commit
 * (`begin … commit` around the same work reaches a third of its rate).
 */
import type { PlannedMove } from '../transition/plan-move.ts'
import type { StoredMachine } from '../transition/stored-machine.ts'
import { type Bound, bind, collectParams, type Params } from './params.ts'

/** The statement does not depend on the types of states, actors and events. */
export type AnyStored<Row> = StoredMachine<string, string, string, Row>

/** Everything that changes the text; a machine has a handful of shapes, each prepared once per connection. */
export type Shape = {
  readonly to: string
  readonly set: readonly string[]
  readonly add: readonly string[]
  readonly guards: readonly string[]
  readonly fence: readonly string[]
  readonly events: number
}

export function shapeOf(move: PlannedMove): Shape {
  return {
    to: move.to,
    set: Object.keys(move.set).sort(),
    add: Object.keys(move.add).sort(),
    guards: [...move.guards].sort(),
    fence: Object.keys(move.fence).sort(),
    events: move.events.length,
  }
}

export function columnList(alias: string, returning: readonly string[] | undefined): string {
  return returning ? returning.map((name) => `${alias}.${name}`).join(', ') : `${alias}.*`
}

/** The columns of the moved row that the events and the answer need. */
export function movedColumns<Row>(stored: AnyStored<Row>): readonly string[] | undefined {
  return stored.returning && [...new Set([...stored.returning, ...Object.values(stored.log?.links ?? {})])]
}

export function compileMove<Row>(stored: AnyStored<Row>, shape: Shape): Bound<PlannedMove, Row> {
  const params = collectParams<PlannedMove>()
  const { idType = 'uuid', tenantType = 'uuid', settable = {}, lock = {}, fences = {} } = stored
  let place: string | undefined
  // A parameter that the text does not use has no type, and Postgres refuses the statement.
  const at = () => {
    place ??= params.add('timestamptz', (move) => move.at)
    return place
  }
  const assignments = [
    `${stored.state} = '${shape.to}'`,
    ...(stored.stateType ? [`${stored.stateType} = ${params.add('text', (move) => move.stateType)}`] : []),
    ...(stored.touched ? [`${stored.touched} = ${at()}`] : []),
    ...(stored.machine.lock === 'version' ? Object.keys(lock).map((name) => `${name} = t.${name} + 1`) : []),
    ...stampsOn(stored, shape, at),
    ...shape.set.map((name) => `${name} = ${params.add(settable[name] ?? 'text', (move) => move.set[name])}`),
    ...shape.add.map(
      (name) => `${name} = t.${name} + ${params.add(settable[name] ?? 'numeric', (move) => move.add[name])}`,
    ),
  ]
  const conditions = [
    `t.${stored.id} = ${params.add(idType, (move) => move.id)}`,
    ...(stored.tenant ? [`t.${stored.tenant} = ${params.add(tenantType, (move) => move.tenant)}`] : []),
    `t.${stored.state} = ${params.add('text', (move) => move.from)}`,
    // An unheld row has no token, and a sweeper that read it without one must find it without one.
    ...Object.entries(lock).map(
      ([name, type], index) => `t.${name} is not distinct from ${params.add(type, (move) => move.lock[index])}`,
    ),
    ...shape.fence.map((name) => `t.${name} = ${params.add(fences[name] ?? 'uuid', (move) => move.fence[name])}`),
    ...shape.guards.map((name) => `(${stored.guards?.[name]})`),
  ]
  const update = `update ${stored.table} as t set
    ${assignments.join(',\n    ')}
  where ${conditions.join('\n    and ')}`
  const text =
    shape.events === 0
      ? `${update}\n  returning ${columnList('t', stored.returning)}`
      : `with moved as (
  ${update}
  returning ${columnList('t', movedColumns(stored))}
), logged as (
  ${insertEvents(stored, shape.events, params, at)}
)
select ${columnList('m', stored.returning)} from moved as m`
  return bind(`move_${stored.machine.name}`, text, params)
}

/** A column that is both set by the caller and stamped keeps the caller's value: setting a column twice is an error in SQL. */
function stampsOn<Row>(stored: AnyStored<Row>, shape: Shape, at: () => string): string[] {
  const { stamps = [], clears = [] } = stored.machine
  const free = (column: string) => !shape.set.includes(column) && column !== stored.touched
  return [
    ...stamps
      .filter((stamp) => stamp.on.includes(shape.to) && free(stamp.column))
      .map(({ column, once }) => `${column} = ${once ? `coalesce(t.${column}, ${at()})` : at()}`),
    ...clears
      .filter((clear) => clear.on.includes(shape.to) && free(clear.column))
      .map(({ column }) => `${column} = null`),
  ]
}

/** The events of a move have the time of the move: one parameter serves both, since parsing a time is expensive (see `encode`). */
function insertEvents<Row>(
  stored: AnyStored<Row>,
  count: number,
  params: Params<PlannedMove>,
  at: () => string,
): string {
  const { log, links } = stored.log as NonNullable<typeof stored.log>
  const columns = log.columns.map((column) => column.name)
  const into = [...columns, ...Object.keys(links)].join(', ')
  const fromRow = Object.values(links)
    .map((column) => `, m.${column}`)
    .join('')
  const rows = Array.from({ length: count }, (_, index) =>
    log.columns
      .map((column) =>
        column.name === log.time
          ? at()
          : params.add(column.type, (move) => {
              const event = move.events[index]
              return event && column.valueOf(event)
            }),
      )
      .join(', '),
  )
  return count === 1
    ? `insert into ${log.table} (${into})\n  select ${rows[0]}${fromRow} from moved as m`
    : `insert into ${log.table} (${into})
  select ${columns.map((name) => `e.${name}`).join(', ')}${fromRow}
  from moved as m cross join (values (${rows.join('), (')})) as e(${columns.join(', ')})`
}

/** Reads the current row, for a caller that lost. */
export function compileFind<Row>(stored: AnyStored<Row>): Bound<Pick<PlannedMove, 'id' | 'tenant'>, Row> {
  const params = collectParams<Pick<PlannedMove, 'id' | 'tenant'>>()
  const { idType = 'uuid', tenantType = 'uuid' } = stored
  const conditions = [
    `t.${stored.id} = ${params.add(idType, (row) => row.id)}`,
    ...(stored.tenant ? [`t.${stored.tenant} = ${params.add(tenantType, (row) => row.tenant)}`] : []),
  ]
  const text = `select ${columnList('t', stored.returning)} from ${stored.table} as t where ${conditions.join(' and ')}`
  return bind(`find_${stored.machine.name}`, text, params)
}
