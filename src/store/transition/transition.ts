/**
 * Moves one row along its machine: checks the machine, then compares and sets, stamps and appends the declared events as
 * one statement. Of any number of concurrent callers one wins; the others get the current row.
 */
import { decideMove } from '#kernel/machine'
import { type Refusal, refuse } from '#kernel/refusal'
import type { Db, Sql, Tx } from '../db.ts'
import { failpoint } from '../failpoints.ts'
import { type AnyStored, compileFind, compileMove, shapeOf } from '../sql/move-row.ts'
import type { Bound } from '../sql/params.ts'
import { type MoveContext, type PlannedMove, planMove } from './plan-move.ts'
import type { AnyRow, StoredMachine } from './stored-machine.ts'

/** Another writer was first. `row` is the current row; the caller may check it and retry once. */
export type LostRace<Row> = Refusal & { readonly row: Row }
export type TransitionResult<Row> = { readonly ok: true; readonly row: Row } | LostRace<Row> | Refusal

export function isLostRace<Row>(result: TransitionResult<Row>): result is LostRace<Row> {
  return !result.ok && 'row' in result
}

/** `row` is the row as the caller read it: at least its id, tenant, state and lock columns. */
export async function transition<S extends string, A extends string, E extends string, Row>(
  sql: Db | Tx,
  stored: StoredMachine<S, A, E, Row>,
  row: AnyRow,
  to: S,
  context: MoveContext<A, E>,
): Promise<TransitionResult<Row>> {
  const from = String(row[stored.state])
  const decision = decideMove(stored.machine, from, to, context.actorKind, row)
  if (!decision.ok) return decision
  const move = planMove(stored, row, decision.value, context)
  const { projections = [] } = stored
  if (projections.length === 0) return writeMove(sql, stored, move)
  const write = async (tx: Tx): Promise<TransitionResult<Row>> => {
    const written = await writeMove(tx, stored, move)
    if (written.ok) {
      for (const project of projections) await project(tx, { row: written.row, from, to, at: move.at })
    }
    return written
  }
  return 'inTransaction' in sql ? write(sql) : sql.transaction(write)
}

/** Writes a planned move; a lane does the same for a batch. */
async function writeMove<Row>(sql: Sql, stored: AnyStored<Row>, move: PlannedMove): Promise<TransitionResult<Row>> {
  const { statement, values } = moveStatement(stored, move)
  const [row] = await sql.run(statement, values(move))
  await failpoint('transition.written')
  return row === undefined ? judgeLoss(stored, move, await findRow(sql, stored, move)) : { ok: true, row }
}

type Compiled = {
  readonly moves: Map<string, Bound<PlannedMove, unknown>>
  readonly find: Bound<Pick<PlannedMove, 'id' | 'tenant'>, unknown>
}
const compiled = new WeakMap<object, Compiled>()

function compiledOf<Row>(stored: AnyStored<Row>): Compiled {
  const known = compiled.get(stored) ?? { moves: new Map(), find: compileFind(stored) }
  compiled.set(stored, known)
  return known
}

function moveStatement<Row>(stored: AnyStored<Row>, move: PlannedMove): Bound<PlannedMove, Row> {
  const { moves } = compiledOf(stored)
  const shape = shapeOf(move)
  const key = `${shape.to}|${shape.events}|${shape.set.join()}|${shape.add.join()}|${shape.guards.join()}|${shape.fence.join()}`
  const known = moves.get(key) ?? compileMove(stored, shape)
  moves.set(key, known)
  // The map belongs to this stored machine, whose rows are `Row`.
  return known as Bound<PlannedMove, Row>
}

async function findRow<Row>(
  sql: Sql,
  stored: AnyStored<Row>,
  of: Pick<PlannedMove, 'id' | 'tenant'>,
): Promise<Row | undefined> {
  const { statement, values } = compiledOf(stored).find as Bound<Pick<PlannedMove, 'id' | 'tenant'>, Row>
  const [row] = await sql.run(statement, values(of))
  return row
}

/** Explains why nothing was written: gone or foreign, a lost lease, or another writer. */
function judgeLoss<Row>(stored: AnyStored<Row>, move: PlannedMove, fresh: Row | undefined): TransitionResult<Row> {
  const { name } = stored.machine
  if (fresh === undefined) return refuse('row.not_found', `there is no such ${name}`)
  const now = fresh as AnyRow
  const lease =
    stored.machine.lock === 'lease'
      ? Object.keys(stored.lock ?? {}).map((name, index) => [name, move.lock[index]] as const)
      : []
  const isLost = [...lease, ...Object.entries(move.fence)].some(([name, value]) => String(now[name]) !== String(value))
  const refusal = isLost
    ? refuse('lease.lost', `this ${name} is no longer held under that lease`)
    : refuse('row.conflict', `this ${name} is ${String(now[stored.state])} now, not ${move.from}`, {
        facts: { state: now[stored.state] },
      })
  return { ...refusal, row: fresh }
}
