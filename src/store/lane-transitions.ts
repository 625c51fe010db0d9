/** A lane for the moves of one machine: many transitions with their events in one statement and one commit. */
import { KernelFault } from '#kernel/errors'
import { decideMove } from '#kernel/machine'
import type { Refusal } from '#kernel/refusal'
import type { Db, Sql } from './db.ts'
import { UnknownOutcome } from './faults.ts'
import { type LaneConfig, openLane, type Submitted } from './lane.ts'
import { batchOf, compileFindEvents, compileFindMany, compileMoves } from './sql/move-rows.ts'
import { type MoveContext, type PlannedMove, planMove } from './transition/plan-move.ts'
import type { AnyRow, StoredMachine } from './transition/stored-machine.ts'
import { judgeLoss, type TransitionResult, writeMove } from './transition/transition.ts'

export type TransitionLane<S extends string, A extends string, E extends string, Row> = {
  /** The same promise as `transition`; two moves of one row keep their order. */
  move(row: AnyRow, to: S, context: MoveContext<A, E>): Promise<TransitionResult<Row>>
  readonly depth: number
  close(): Promise<void>
}

export type TransitionLaneOptions = Pick<LaneConfig<unknown, unknown>, 'connections' | 'batchMax' | 'queuedMax'> & {
  readonly onFlushed?: () => void
}

export function openTransitionLane<S extends string, A extends string, E extends string, Row>(
  db: Db,
  stored: StoredMachine<S, A, E, Row>,
  { onFlushed, ...options }: TransitionLaneOptions = {},
): TransitionLane<S, A, E, Row> {
  if (stored.projections?.length)
    throw new KernelFault('store.lane.projections', `${stored.machine.name} needs a transaction`)
  const batch = compileMoves<Row>(stored)
  const find = compileFindMany<Row>(stored)
  const findEvents =
    stored.log?.log.id === undefined
      ? undefined
      : compileFindEvents({ table: stored.log.log.table, id: stored.log.log.id })
  const { id: idColumn, tenant: tenantColumn } = stored

  async function write(
    sql: Sql,
    items: readonly Submitted<PlannedMove>[],
  ): Promise<Map<number, TransitionResult<Row>>> {
    const moves = items.map(({ item }) => item)
    const [only] = moves
    if (only !== undefined && moves.length === 1) return new Map([[1, await writeMove<Row>(sql, stored, only)]])
    const rows = await sql.run(batch.statement, batch.values(batchOf(moves)))
    return new Map(rows.map(({ n, ...row }) => [n, { ok: true, row: row as Row }]))
  }

  async function flush(
    sql: Sql,
    items: readonly Submitted<PlannedMove>[],
    tell: (index: number, answer: TransitionResult<Row>) => void,
  ): Promise<(TransitionResult<Row> | Error)[]> {
    const written = await write(sql, items)
    const losers = items.filter((_, index) => !written.get(index + 1)?.ok)
    if (losers.length === 0) return items.map((_, index) => written.get(index + 1) as TransitionResult<Row>)
    // The winners are committed: what a look at the losers meets does not concern them.
    for (const [n, answer] of written) if (answer.ok) tell(n - 1, answer)
    const moves = losers.map(({ item }) => item)
    const fresh = new Map(
      (await sql.run(find.statement, find.values(moves))).map((row) => [String((row as AnyRow)[idColumn]), row]),
    )
    const seen = await findCommitted(sql, losers)
    return items.map((submitted, index) => {
      const won = written.get(index + 1)
      return won?.ok ? won : judge(submitted, fresh.get(String(submitted.item.id)), seen)
    })
  }

  /** A retried move that lost may have lost to itself: its own event tells. */
  async function findCommitted(sql: Sql, losers: readonly Submitted<PlannedMove>[]): Promise<ReadonlySet<string>> {
    const ids = losers
      .filter(({ retried }) => retried)
      .flatMap(({ item }) => item.events.slice(0, 1).map((event) => event.eventId))
    if (ids.length === 0 || findEvents === undefined) return new Set()
    const rows = await sql.run(findEvents.statement, findEvents.values(ids))
    return new Set(rows.map(({ id }) => id))
  }

  function judge(
    { item, retried }: Submitted<PlannedMove>,
    row: Row | undefined,
    seen: ReadonlySet<string>,
  ): TransitionResult<Row> | Error {
    const isForeign = row !== undefined && tenantColumn !== undefined && (row as AnyRow)[tenantColumn] !== item.tenant
    const own = isForeign ? undefined : row
    const [event] = item.events
    if (retried && own !== undefined) {
      if (event !== undefined && seen.has(event.eventId)) return { ok: true, row: own }
      // Nothing tells a move without an event, made by us before the break, from one that another writer made.
      if (event === undefined || findEvents === undefined)
        return new UnknownOutcome(`a move of ${stored.machine.name}`, undefined)
    }
    return judgeLoss<Row>(stored, item, own)
  }

  const lane = openLane<PlannedMove, TransitionResult<Row>>(db, {
    ...options,
    name: stored.machine.name,
    keyOf: (move) => String(move.id),
    flush,
    retrySafe: true,
    ...(onFlushed ? { onFlushed: () => onFlushed() } : {}),
  })

  return {
    get depth() {
      return lane.depth
    },
    async move(row, to, context): Promise<TransitionResult<Row> | Refusal> {
      const decision = decideMove(stored.machine, String(row[stored.state]), to, context.actorKind, row)
      return decision.ok ? lane.submit(planMove(stored, row, decision.value, context)) : decision
    },
    close: () => lane.close(),
  }
}
