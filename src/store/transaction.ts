/**
 * One transaction from its connection to its end: begun again where Postgres asks for it, and whoever set something aside in the hope of a
 * commit is told how it ended.
 */
import type pg from 'pg'
import { KernelFault } from '#kernel/errors'
import { isSilence, outcomeOf, sqlStateOf } from './faults.ts'
import { type Sql, sqlOn } from './sql-on.ts'

/** A transaction in progress. Functions that take a `Tx` never begin or end one. */
export interface Tx extends Sql {
  readonly inTransaction: true
  /** Called once after the commit, never after a rollback: for what only hurries things along, such as a wake. */
  afterCommit(work: () => void): void
  /** Called once when it came to nothing, or nobody knows what became of it: for what was set aside in the hope of a commit. */
  afterRollback(work: () => void): void
}

const TRANSACTION_ATTEMPTS = 5

/** `run` opens the transaction and does the work. */
export async function inTransaction<T>(pool: pg.Pool, run: (client: pg.PoolClient, tx: Tx) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    const client = await pool.connect()
    let broken: Error | undefined
    const life: Life = { isOver: false, firstFault: undefined }
    const committed: (() => void)[] = []
    const undone: (() => void)[] = []
    try {
      const value = await run(client, txOn(whileOpen(client, life), committed, undone))
      life.isOver = true
      const { command } = await client.query('commit')
      // A transaction with a failed statement answers COMMIT with ROLLBACK, and without an error.
      if (command !== 'COMMIT') throw new KernelFault('store.transaction.rolled_back', 'a failed statement was ignored')
      callEach(committed)
      return value
    } catch (caught) {
      life.isOver = true
      const error = causeOf(caught, life)
      // A connection that still owes an answer would make the rollback wait as long again.
      if (isSilence(error)) broken = error
      else {
        await client.query('rollback').catch((fault: Error) => {
          broken = fault
        })
      }
      callEach(undone)
      if (attempt < TRANSACTION_ATTEMPTS && outcomeOf(error) === 'again') continue
      throw error
    } finally {
      client.release(broken)
    }
  }
}

type Life = { isOver: boolean; firstFault: unknown }

/**
 * The connection until the end of the transaction. Of several statements that were sent together one fails, and whoever goes on in another
 * branch comes after the rollback: there it would write without any transaction, or into the next one of this connection.
 */
function whileOpen(client: pg.PoolClient, life: Life): pg.PoolClient {
  const query = async (...args: readonly unknown[]): Promise<unknown> => {
    if (life.isOver) throw new KernelFault('store.transaction.over', 'the transaction of this statement has ended')
    try {
      return await Reflect.apply(client.query, client, args)
    } catch (error) {
      life.firstFault ??= error
      throw error
    }
  }
  return new Proxy(client, {
    get: (target, name): unknown => (name === 'query' ? query : Reflect.get(target, name, target)),
  })
}

/** `in_failed_sql_transaction`: refused because another one had failed, which may be heard of later. */
const AFTER_FAULT = '25P02'

function causeOf(error: unknown, { firstFault }: Life): unknown {
  return sqlStateOf(error) === AFTER_FAULT ? (firstFault ?? error) : error
}

function txOn(client: pg.PoolClient, committed: (() => void)[], undone: (() => void)[]): Tx {
  return Object.assign(sqlOn(client), {
    inTransaction: true as const,
    afterCommit: (work: () => void) => void committed.push(work),
    afterRollback: (work: () => void) => void undone.push(work),
  })
}

/** The end stands, whatever these do: what they would have hurried along happens a little later without them. */
function callEach(works: readonly (() => void)[]): void {
  for (const work of works) {
    try {
      work()
    } catch (error) {
      process.emitWarning(error instanceof Error ? error : String(error))
    }
  }
}
