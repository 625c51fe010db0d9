/** A lane for new rows of one table, each with its events: "open a command" for many callers in one commit. */
import { type Decision, type Refusal, refuse } from '#kernel/refusal'
import type { Db, Sql } from './db.ts'
import type { EventDraft } from './events.ts'
import { sqlStateOf } from './faults.ts'
import { type LaneConfig, openLane, type Submitted } from './lane.ts'
import { checkInsert, insertOnce, type Once, type OnceTable } from './once.ts'
import { compileFindById, compileInsertMany, type OnceCall, onceBatch } from './sql/insert-once.ts'
import type { AnyRow } from './transition/stored-machine.ts'

export type InsertLane<Row> = {
  /** The same guarantee as `insertOnce`. */
  insert(row: AnyRow, events?: readonly EventDraft[]): Promise<Decision<Once<Row>> | Refusal>
  readonly depth: number
  close(): Promise<void>
}

const UNIQUE_VIOLATION = '23505'
const LOCK_NOT_AVAILABLE = '55P03'
/** How long a batch waits for another open transaction with one of its keys; the rest of the batch waits with it. */
const KEY_WAIT = "set lock_timeout = '500ms'"

/** The key is being written by another open transaction, so its existence is unknown. */
export function refuseInProgress(error: unknown): Refusal | undefined {
  if (sqlStateOf(error) !== LOCK_NOT_AVAILABLE) return undefined
  return refuse('key_in_progress', 'A request with this key is just being written.', {
    path: 'idempotency_key',
    hint: 'Send the same request again in a second.',
    facts: { retry_after_s: 1 },
  })
}

type InsertLaneOptions = Pick<LaneConfig<unknown, unknown>, 'connections' | 'batchMax' | 'queuedMax'> & {
  readonly onFlushed?: () => void
}

export function openInsertLane<Row>(
  db: Db,
  table: OnceTable<Row>,
  { onFlushed, ...options }: InsertLaneOptions = {},
): InsertLane<Row> {
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
    ...options,
    name: table.table,
    // Two rows with one key go into two batches: the second must find the first.
    keyOf: ({ row }) => keyOf(row),
    settings: KEY_WAIT,
    flush,
    retrySafe: true,
    ...(onFlushed ? { onFlushed: () => onFlushed() } : {}),
  })

  return {
    get depth() {
      return lane.depth
    },
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
