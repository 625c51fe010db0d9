/** Wakes rows that are overdue and have no living turn: work that was lost with its process. */
import type { Clock } from '#kernel/clock'
import type { Process, Runtime, WakeOptions } from '#runtime'
import { type Db, type Statement, statement } from '#store'

/** Shorter than the five seconds within which committed work must start. */
const GRACE_MS = 2_000
const BATCH = 500
/** Concurrent wakes: as many as a pool of ten can spare. */
const AT_ONCE = 8

type OverdueSpec = {
  /** Prefix of the statement's name. */
  readonly room: string
  readonly table: string
  /** The columns to return, for the alias `t`. */
  readonly columns: string
  /** SQL over the alias `t`: the row has not ended. */
  readonly isOpen: string
}

/** $1 due before, $2 limit. */
export function overdueRows<Row>({ room, table, columns, isOpen }: OverdueSpec): Statement<Row> {
  return statement(
    `${room}_list_overdue`,
    `select ${columns} from ${table} as t
where ${isOpen} and t.run_after <= $1 and (t.turn_until is null or t.turn_until < statement_timestamp())
order by t.run_after limit $2`,
  )
}

type QueueSpec = Omit<OverdueSpec, 'columns'> & {
  /** The column of the id. */
  readonly id: string
  readonly kind: string
  readonly queue: string
}

/** For a table whose rows are all woken in one queue. Returns the function that wakes those that are due. */
export function openReconcile({ id, kind, queue, ...of }: QueueSpec) {
  const overdue = overdueRows<{ readonly id: string }>({ ...of, columns: `t.${id} as id` })
  return (deps: Reconciling, graceMs?: number): Promise<number> =>
    reconcile(deps, overdue, async (row) => ({ process: { kind, id: row.id }, options: { queue } }), graceMs)
}

type Reconciling = { readonly db: Db; readonly now: Clock; readonly wake: Runtime['wake'] }

/** Returns how many processes it woke; a full batch means that there may be more. */
export async function reconcile<Row>(
  deps: Reconciling,
  overdue: Statement<Row>,
  wakeOf: (row: Row) => Promise<{ readonly process: Process; readonly options: WakeOptions }>,
  graceMs = GRACE_MS,
): Promise<number> {
  const rows = await deps.db.run(overdue, [new Date(deps.now().getTime() - graceMs), BATCH])
  for (let from = 0; from < rows.length; from += AT_ONCE) {
    await Promise.all(
      rows.slice(from, from + AT_ONCE).map(async (row) => {
        const { process, options } = await wakeOf(row)
        await deps.wake(process, options)
      }),
    )
  }
  return rows.length
}
