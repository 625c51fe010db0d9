/**
 * Moves one row along its machine: checks the machine, then compares, sets, stamps and appends the declared events in one statement. That is
 * one round trip and one commit (`begin … commit` around the same work reaches a third of its rate). Of any number of concurrent callers
 * one wins; the others get the current row.
 */
import type { NewId } from '#kernel/clock'
import { KernelFault } from '#kernel/errors'
import { decideMove, type Machine, type Move } from '#kernel/machine'
import { type Refusal, refuse } from '#kernel/refusal'
import { checkEvent, type EventDraft, type EventLog } from './events.ts'
import { failpoint } from './failpoints.ts'
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

export type AnyRow = Readonly<Record<string, unknown>>

/** Carries only a row type; never set. */
export type RowType<Row> = { readonly row?: Row }

export type LogBinding<E extends string = string> = {
  readonly log: EventLog<E>
  /** `target_type` in the payload of every event. */
  readonly target: string
  /** Link column of the log → column of the row. */
  readonly links: Readonly<Record<string, string>>
}

/** Binds a kernel machine to its table. */
export type StoredMachine<S extends string, A extends string, E extends string, Row> = {
  readonly machine: Machine<S, A, E>
  readonly table: string
  readonly id: string
  readonly tenant: string
  readonly state: string
  /** Set to the time of every move. */
  readonly touched?: string
  /** The columns that a caller may set along with a move. */
  readonly settable?: Columns
  /** Named conditions over the row `t`: `{ unexpired: '(t.expires_at is null or t.expires_at > now())' }`. */
  readonly guards?: Readonly<Record<string, string>>
  /** The returned columns; all by default, which is expensive where rows carry large documents. */
  readonly returning?: readonly string[]
  readonly log?: LogBinding<E>
  readonly row?: RowType<Row>
}

/** The statement does not depend on the types of states, actors and events. */
type AnyStored<Row> = StoredMachine<string, string, string, Row>

/** Checks the binding, so that it cannot write a column of the move itself or an event type outside the closed list of its log. */
export function storedMachine<S extends string, A extends string, E extends string, Row = AnyRow>(
  stored: StoredMachine<S, A, E, Row>,
): StoredMachine<S, A, E, Row> {
  const { machine, id, tenant, state, touched, settable = {}, returning, log } = stored
  const fault = (why: string) => new KernelFault('store.machine.binding', `The machine ${machine.name} ${why}.`)
  tableName(stored.table)
  const stamped = [...(machine.stamps ?? []), ...(machine.clears ?? [])].map(({ column }) => column)
  const links = log?.links ?? {}
  const written = [id, tenant, state, ...(touched === undefined ? [] : [touched])]
  const named = [...written, ...Object.keys(settable), ...(returning ?? []), ...stamped, ...Object.values(links)]
  named.forEach(columnName)

  if (machine.nullState !== undefined) throw fault('stores a state as NULL, which no statement compares')
  if (machine.lock !== 'from-state') throw fault(`has the lock ${machine.lock}; a move compares only the state`)
  const taken = Object.keys(settable).find((name) => written.includes(name))
  if (taken !== undefined) throw fault(`writes ${taken} itself, so it cannot be settable`)
  const hidden = [id, state].find((name) => returning?.includes(name) === false)
  if (hidden !== undefined) throw fault(`must return ${hidden}: the loser of a race gets the current state`)
  const emitted = machine.moves.flatMap((move) => move.emits)
  const unknown = emitted.find((type) => !log?.log.types.includes(type))
  if (unknown !== undefined) throw fault(`emits ${unknown}, which is not an event type of its log`)
  const strange = Object.keys(links).find((link) => !log || !Object.hasOwn(log.log.links, link))
  if (strange !== undefined) throw fault(`links events by ${strange}, which is not a link column of its log`)
  return stored
}

type Payload = Readonly<Record<string, unknown>>

export type MoveContext<A extends string = string, E extends string = string> = {
  /** The actor, e.g. `user:0197…`. */
  readonly actor: string
  readonly actorKind: A
  readonly traceId: string
  readonly at: Date
  readonly newId: NewId
  /** In addition to `from`, `to`, `target_type` and `target_id`, which every event of a move carries. */
  readonly payload?: Payload | ((type: E) => Payload)
  readonly set?: AnyRow
  readonly guards?: readonly string[]
}

/** Another writer was first. `row` is the current row; the caller may check it and retry once. */
type LostRace<Row> = Refusal & { readonly row: Row }
export type TransitionResult<Row> = { readonly ok: true; readonly row: Row } | LostRace<Row> | Refusal

export function isLostRace<Row>(result: TransitionResult<Row>): result is LostRace<Row> {
  return !result.ok && 'row' in result
}

/** One move of one row, ready to be written. */
type PlannedMove = {
  readonly id: unknown
  readonly tenant: unknown
  readonly from: string
  readonly to: string
  readonly at: Date
  readonly set: AnyRow
  readonly guards: readonly string[]
  readonly events: readonly EventDraft[]
}

/** `row` is the row as the caller read it: at least its id, tenant and state. */
export async function transition<S extends string, A extends string, E extends string, Row>(
  sql: Sql,
  stored: StoredMachine<S, A, E, Row>,
  row: AnyRow,
  to: S,
  context: MoveContext<A, E>,
): Promise<TransitionResult<Row>> {
  const decision = decideMove(stored.machine, String(row[stored.state]), to, context.actorKind, row)
  if (!decision.ok) return decision
  const move = planMove(stored, row, decision.value, context)
  const { statement, values } = moveStatement(stored, move)
  const [moved] = await sql.run(statement, values(move))
  await failpoint('transition.written')
  if (moved !== undefined) return { ok: true, row: moved }
  // The map belongs to this stored machine, whose rows are `Row`.
  const find = compiledOf(stored).find as Bound<PlannedMove, Row>
  const [current] = await sql.run(find.statement, find.values(move))
  return explainLoss(stored, move, current)
}

function planMove<S extends string, A extends string, E extends string, Row>(
  stored: StoredMachine<S, A, E, Row>,
  row: AnyRow,
  { from, to, emits }: Move<S, A, E>,
  context: MoveContext<A, E>,
): PlannedMove {
  const { machine, settable = {} } = stored
  const { set = {}, guards = [], at } = context
  const column = (name: string): unknown => {
    if (row[name] !== undefined) return row[name]
    throw new KernelFault('store.row.incomplete', `A ${machine.name} cannot move without ${name}.`)
  }
  const strange = Object.keys(set).find((name) => !Object.hasOwn(settable, name))
  if (strange !== undefined)
    throw new KernelFault('store.column.not_settable', `A ${machine.name} cannot set ${strange} with a move.`)
  const guard = guards.find((name) => !Object.hasOwn(stored.guards ?? {}, name))
  if (guard !== undefined) throw new KernelFault('store.guard.unknown', `A ${machine.name} has no guard ${guard}.`)
  const [id, tenant] = [column(stored.id), column(stored.tenant)]
  const events = emits.map((type) => draftEvent(stored, type, { from, to, id }, context))
  return { id, tenant, from, to, at, set, guards, events }
}

function draftEvent<S extends string, A extends string, E extends string, Row>(
  { log, machine }: StoredMachine<S, A, E, Row>,
  type: E,
  { from, to, id }: { readonly from: string; readonly to: string; readonly id: unknown },
  { actor, actorKind, traceId, at, newId, payload }: MoveContext<A, E>,
): EventDraft<E> {
  if (!log) throw new KernelFault('store.machine.binding', `The machine ${machine.name} has no event log.`)
  const own = typeof payload === 'function' ? payload(type) : payload
  const event: EventDraft<E> = {
    eventId: newId(),
    type,
    payload: { ...own, from, to, target_type: log.target, target_id: id },
    actor,
    actorKind,
    traceId,
    at,
  }
  checkEvent(log.log, event)
  return event
}

/** Explains why nothing was written: the row does not exist in this tenant, or another writer was first. */
function explainLoss<Row>(stored: AnyStored<Row>, move: PlannedMove, current: Row | undefined): TransitionResult<Row> {
  const { name } = stored.machine
  if (current === undefined) return refuse('row.not_found', `There is no such ${name}.`)
  const state = (current as AnyRow)[stored.state]
  const reason = `This ${name} is ${String(state)} now, not ${move.from}.`
  return { ...refuse('row.conflict', reason, { facts: { state } }), row: current }
}

type Compiled = {
  readonly moves: Map<string, Bound<PlannedMove, unknown>>
  readonly find: Bound<PlannedMove, unknown>
}
const compiled = new WeakMap<object, Compiled>()

function compiledOf<Row>(stored: AnyStored<Row>): Compiled {
  const known = compiled.get(stored) ?? { moves: new Map(), find: compileFind(stored) }
  compiled.set(stored, known)
  return known
}

/** Everything that changes the text; a machine has a handful of shapes, each prepared once per connection. */
type Shape = {
  readonly to: string
  readonly set: readonly string[]
  readonly guards: readonly string[]
  readonly events: number
}

function moveStatement<Row>(stored: AnyStored<Row>, { to, set, guards, events }: PlannedMove): Bound<PlannedMove, Row> {
  const { moves } = compiledOf(stored)
  const shape: Shape = { to, set: Object.keys(set).sort(), guards: [...guards].sort(), events: events.length }
  const key = `${to}|${shape.events}|${shape.set.join()}|${shape.guards.join()}`
  const known = moves.get(key) ?? compileMove(stored, shape)
  moves.set(key, known)
  // The map belongs to this stored machine, whose rows are `Row`.
  return known as Bound<PlannedMove, Row>
}

function columnList(alias: string, columns: readonly string[] | undefined): string {
  return columns ? columns.map((name) => `${alias}.${name}`).join(', ') : `${alias}.*`
}

function compileMove<Row>(stored: AnyStored<Row>, shape: Shape): Bound<PlannedMove, Row> {
  const params = collectParams<PlannedMove>()
  const { settable = {}, returning, log } = stored
  let place: string | undefined
  // A parameter that the text does not use has no type, and Postgres refuses the statement.
  const at = () => {
    place ??= params.add('timestamptz', (move) => move.at)
    return place
  }
  const assignments = [
    `${stored.state} = '${shape.to}'`,
    ...(stored.touched ? [`${stored.touched} = ${at()}`] : []),
    ...stampsOn(stored, shape, at),
    ...shape.set.map((name) => `${name} = ${params.add(settable[name] ?? 'text', (move) => move.set[name])}`),
  ]
  const conditions = [
    `t.${stored.id} = ${params.add('uuid', (move) => move.id)}`,
    `t.${stored.tenant} = ${params.add('uuid', (move) => move.tenant)}`,
    `t.${stored.state} = ${params.add('text', (move) => move.from)}`,
    ...shape.guards.map((name) => `(${stored.guards?.[name]})`),
  ]
  const update = `update ${stored.table} as t set
    ${assignments.join(',\n    ')}
  where ${conditions.join('\n    and ')}`
  const moved = returning && [...new Set([...returning, ...Object.values(log?.links ?? {})])]
  const text =
    shape.events === 0
      ? `${update}\n  returning ${columnList('t', returning)}`
      : `with moved as (
  ${update}
  returning ${columnList('t', moved)}
), logged as (
  ${insertEvents(stored, shape.events, params, at)}
)
select ${columnList('m', returning)} from moved as m`
  return bind(`move_${stored.machine.name}`, text, params)
}

/** A column that the caller sets keeps the caller's value: setting a column twice is an error in SQL. */
function stampsOn<Row>({ machine, touched }: AnyStored<Row>, { to, set }: Shape, at: () => string): string[] {
  const { stamps = [], clears = [] } = machine
  const applies = ({ on, column }: { on: readonly string[]; column: string }) =>
    on.includes(to) && !set.includes(column) && column !== touched
  return [
    ...stamps
      .filter(applies)
      .map(({ column, once }) => `${column} = ${once ? `coalesce(t.${column}, ${at()})` : at()}`),
    ...clears.filter(applies).map(({ column }) => `${column} = null`),
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

/** Reads the current row for a caller that lost. */
function compileFind<Row>({ machine, table, id, tenant, returning }: AnyStored<Row>): Bound<PlannedMove, Row> {
  const params = collectParams<PlannedMove>()
  const text = `select ${columnList('t', returning)} from ${table} as t
where t.${id} = ${params.add('uuid', (move) => move.id)} and t.${tenant} = ${params.add('uuid', (move) => move.tenant)}`
  return bind(`find_${machine.name}`, text, params)
}
