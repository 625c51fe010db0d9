/**
 * One descriptor per table: its name, its id and tenant, the machine of its state, what makes an insert a repeat, and the log of its events.
 * `find`, `get`, `insertOnce`, `transition` and `append` come with it.
 */
import { type Actor, eventBy } from '#kernel/actor'
import type { NewId } from '#kernel/clock'
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { isUuid } from '#kernel/ids'
import { appendEvents, eventColumns, type EventDraft, eventIdOf, type EventLog } from './events.ts'
import { insertOnce, type Once, type OnceTable, onceTable } from './once.ts'
import { columnName, type Sql, statement, statementName, tableName } from './statement.ts'
import {
  type AnyRow,
  type MoveContext,
  type StoredMachine,
  storedMachine,
  transition,
  type TransitionResult,
} from './transition.ts'

type Payload = Readonly<Record<string, unknown>>

type TableSpec<Row, S extends string, A extends string, E extends string> = Partial<
  Pick<StoredMachine<S, A, E, Row>, 'machine' | 'state' | 'touched' | 'settable' | 'guards' | 'returning'>
> & {
  readonly name: string
  /** The word for a row in messages; also the `target_type` of its events. */
  readonly noun: string
  readonly id: string
  readonly tenant: string
  readonly once?: Pick<OnceTable<Row>, 'columns' | 'key' | 'content' | 'returning'>
  readonly log?: EventLog<E>
  /** Columns of the row that its events carry as links, under the same names. */
  readonly links?: readonly string[]
  /** The part of every event's payload that comes from the row, in addition to `target_type` and `target_id`. */
  readonly about?: (row: Row) => Payload
}

type Moving<A extends string, E extends string> = Omit<MoveContext<A, E>, 'actor' | 'actorKind' | 'traceId'>

/** `round` makes the same fact about the same row the same event, however often it is written. */
type TableFact<E extends string> = { readonly type: E; readonly at: Date; readonly payload?: Payload } & (
  | { readonly newId: NewId; readonly round?: undefined }
  | { readonly round: string }
)

export type Table<Row, S extends string, A extends string, E extends string> = {
  find(sql: Sql, tenant: string, id: string): Promise<Row | undefined>
  /** The same, with the one refusal for a row that is not there, or not of this tenant. */
  get(sql: Sql, tenant: string, id: string): Promise<Decision<Row>>
  missing(): Refusal
  insertOnce(sql: Sql, row: Row, actor: Actor<string>, created: TableFact<E>): Promise<Decision<Once<Row>>>
  transition(sql: Sql, row: Row, to: S, actor: Actor<A>, moving: Moving<A, E>): Promise<TransitionResult<Row>>
  /** The columns of the fact, for a statement of the room that inserts it with other rows. */
  eventRow(row: Row, actor: Actor<string>, fact: TableFact<E>): Readonly<Record<string, unknown>>
  /** Inserts such columns. `alias` has them, and is one of the sources in `from`. */
  appendText(alias: string, from: string): string
  /** Facts with a `round` each, in one statement. */
  appendOnce(
    sql: Sql,
    row: Row,
    actor: Actor<string>,
    facts: readonly (TableFact<E> & { readonly round: string })[],
  ): Promise<void>
  /** True when the fact is new. */
  append(sql: Sql, row: Row, actor: Actor<string>, fact: TableFact<E>): Promise<boolean>
}

/** `defineTable<StoredApproval>()({ … })`: the row type is named, everything else is inferred. */
export function defineTable<Row extends object>() {
  return <S extends string = never, A extends string = never, E extends string = never>(
    spec: TableSpec<Row, S, A, E>,
  ): Table<Row, S, A, E> => {
    const links = Object.fromEntries((spec.links ?? []).map((name) => [name, name]))
    const stored = storedOf(spec, links)
    const once = onceOf(spec, links)
    const text = `select * from ${tableName(spec.name)} where ${columnName(spec.id)} = $1 and ${columnName(spec.tenant)} = $2`
    const lookup = statement<Row>(statementName(`lookup_${spec.name}`, text), text)
    const missing = () => refuse('row.not_found', `There is no such ${spec.noun}.`)
    const aboutOf = (row: Row) => spec.about?.(row) ?? {}

    async function find(sql: Sql, tenant: string, id: string): Promise<Row | undefined> {
      // Postgres fails on a text that is not a UUID, and no row can have it.
      if (!isUuid(id)) return undefined
      const [row] = await sql.run(lookup, [id, tenant])
      return row
    }

    function draft(row: Row, actor: Actor<string>, fact: TableFact<E>): EventDraft<E> {
      const id = String((row as AnyRow)[spec.id])
      const { type, payload, at } = fact
      return {
        eventId: fact.round === undefined ? fact.newId() : eventIdOf(type, id, fact.round),
        type,
        payload: { ...aboutOf(row), ...payload, target_type: spec.noun, target_id: id },
        ...eventBy(actor),
        at,
      }
    }

    function linked(row: Row, actor: Actor<string>, fact: TableFact<E>): EventDraft<E> {
      const from = Object.fromEntries(Object.keys(links).map((name) => [name, (row as AnyRow)[name]]))
      return { ...draft(row, actor, fact), links: from }
    }

    return {
      find,
      async get(sql, tenant, id) {
        const row = await find(sql, tenant, id)
        return row === undefined ? missing() : accept(row)
      },
      missing,
      insertOnce(sql, row, actor, created) {
        return insertOnce(sql, once ?? absent(spec.name, 'key'), row as AnyRow, [draft(row, actor, created)])
      },
      transition(sql, row, to, actor, { payload, ...moving }) {
        const about = aboutOf(row)
        return transition(sql, stored ?? absent(spec.name, 'machine'), row as AnyRow, to, {
          ...moving,
          ...eventBy(actor),
          payload: (type: E) => ({ ...about, ...(typeof payload === 'function' ? payload(type) : payload) }),
        })
      },
      eventRow: (row, actor, fact) => eventColumns(spec.log ?? absent(spec.name, 'log'), linked(row, actor, fact)),
      appendText(alias, from) {
        const log = spec.log ?? absent(spec.name, 'log')
        const names = [...log.columns.map(({ name }) => name), ...Object.keys(links)]
        return `insert into ${log.table} (${names.join(', ')})
  select ${names.map((name) => `${alias}.${name}`).join(', ')} from ${from}
  returning true as appended`
      },
      async appendOnce(sql, row, actor, facts) {
        const log = spec.log ?? absent(spec.name, 'log')
        await appendEvents(
          sql,
          log,
          facts.map((fact) => linked(row, actor, fact)),
          { once: true },
        )
      },
      async append(sql, row, actor, fact) {
        const log = spec.log ?? absent(spec.name, 'log')
        return (await appendEvents(sql, log, [linked(row, actor, fact)], { once: fact.round !== undefined })) === 1
      },
    }
  }
}

function absent(table: string, part: string): never {
  throw new KernelFault('store.table.binding', `The table ${table} has no ${part}.`)
}

function storedOf<Row, S extends string, A extends string, E extends string>(
  spec: TableSpec<Row, S, A, E>,
  links: Readonly<Record<string, string>>,
): StoredMachine<S, A, E, Row> | undefined {
  const { log, machine, state, ...rest } = spec
  if (machine === undefined || state === undefined) return undefined
  const binding = log === undefined ? {} : { log: { log, target: spec.noun, links } }
  return storedMachine({ ...rest, machine, state, table: spec.name, ...binding })
}

function onceOf<Row, S extends string, A extends string, E extends string>(
  { name, id, once, log }: TableSpec<Row, S, A, E>,
  links: Readonly<Record<string, string>>,
): OnceTable<Row> | undefined {
  if (once === undefined) return undefined
  return onceTable<Row>({ ...once, table: name, id, ...(log ? { log: { log, links } } : {}) })
}
