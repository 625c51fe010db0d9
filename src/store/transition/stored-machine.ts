/** Binds a kernel machine to its table: which columns hold id, tenant, state and lock, and how its events reach their log. */
import { KernelFault } from '#kernel/errors'
import type { Machine } from '#kernel/machine'
import type { Tx } from '../db.ts'
import type { EventLog } from '../events.ts'
import { type Columns, columnName, type PgType, tableName } from '../sql/names.ts'

export type AnyRow = Readonly<Record<string, unknown>>

/** Carries only a row type: `row: rowType<StoredCommand>()`. */
export type RowType<Row> = { readonly row?: Row }
export function rowType<Row>(): RowType<Row> {
  return {}
}

export type Moved<Row> = { readonly row: Row; readonly from: string; readonly to: string; readonly at: Date }
/** Runs in the transaction of the move: counters, a board card. A machine with projections always moves in a transaction. */
export type Projection<Row> = (tx: Tx, moved: Moved<Row>) => Promise<void>

export type LogBinding<E extends string = string> = {
  readonly log: EventLog<E>
  /** `target_type` in the payload of every event. */
  readonly target: string
  /** Link column of the log → column of the row. */
  readonly links: Readonly<Record<string, string>>
}

export type StoredMachine<S extends string, A extends string, E extends string, Row> = {
  readonly machine: Machine<S, A, E>
  readonly table: string
  readonly id: string
  readonly idType?: PgType
  readonly tenant?: string
  readonly tenantType?: PgType
  readonly state: string
  /** Holds the StateType, where the table has such a column. */
  readonly stateType?: string
  /** Set to the time of every move. */
  readonly touched?: string
  /** What is compared beside the state: one column that counts (`version`), or the fence (`lease`); nothing for `from-state`. */
  readonly lock?: Columns
  /** Columns that a caller may name as a fence where the lock is another: a driver's turn on a command. */
  readonly fences?: Columns
  /** The columns that a caller may set or add to along with a move. */
  readonly settable?: Columns
  /** Named conditions over the row `t`, asked for by name: `{ unexpired: '(t.expires_at is null or t.expires_at > now())' }`. */
  readonly guards?: Readonly<Record<string, string>>
  /** The returned columns; all by default, which is expensive where rows carry large documents. */
  readonly returning?: readonly string[]
  readonly log?: LogBinding<E>
  readonly projections?: readonly Projection<Row>[]
  readonly row?: RowType<Row>
}

/** Declares the binding and refuses one that could write an event type that its log does not know. */
export function storedMachine<S extends string, A extends string, E extends string, Row = AnyRow>(
  stored: StoredMachine<S, A, E, Row>,
): StoredMachine<S, A, E, Row> {
  const { machine, lock = {}, fences = {}, settable = {}, log } = stored
  const fault = (why: string) => new KernelFault('store.machine.binding', `${machine.name}: ${why}`)
  tableName(stored.table)
  const owned = [stored.id, stored.tenant, stored.state, stored.stateType, stored.touched, ...Object.keys(lock)]
  const kept = owned.filter((name) => name !== undefined)
  for (const name of [...kept, ...Object.keys(fences), ...Object.keys(settable), ...(stored.returning ?? [])])
    columnName(name)
  for (const { column } of [...(machine.stamps ?? []), ...(machine.clears ?? [])]) columnName(column)

  if (machine.nullState !== undefined) throw fault('a state stored as NULL has no binding to Postgres')
  const columns = Object.keys(lock).length
  const fits = machine.lock === 'from-state' ? columns === 0 : machine.lock === 'version' ? columns === 1 : columns > 0
  if (!fits) throw fault(`the lock ${machine.lock} does not fit its ${columns} columns`)
  const fence = machine.lock === 'lease' ? Object.keys(lock) : []
  const taken = Object.keys(settable).find((name) => kept.includes(name) && !fence.includes(name))
  if (taken !== undefined) throw fault(`${taken} is written by the move itself`)

  const telling = [stored.id, stored.state, ...Object.keys(lock), ...Object.keys(fences)]
  const needed = telling.find((name) => stored.returning?.includes(name) === false)
  if (needed !== undefined) throw fault(`${needed} must come back: a loser is told the state he lost to`)

  const emitted = machine.moves.flatMap((move) => move.emits)
  if (emitted.length > 0 && log === undefined) throw fault('its moves declare events and there is no log')
  const unknown = emitted.find((type) => !log?.log.types.includes(type))
  if (unknown !== undefined) throw fault(`the log has no event type ${unknown}`)
  for (const [link, column] of Object.entries(log?.links ?? {})) {
    columnName(column)
    if (!log || !Object.hasOwn(log.log.links, link)) throw fault(`the log has no link ${link}`)
  }
  return stored
}
