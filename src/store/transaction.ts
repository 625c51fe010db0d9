/**
 * Runs one transaction: commits what it returns, rolls back when it throws or returns a refusal, retries on serialization failures and
 * deadlocks, then runs the afterCommit or afterRollback hooks.
 */
import type pg from 'pg'
import { KernelFault } from '#kernel/errors'
import { isRefusal, type Refusal } from '#kernel/refusal'
import { isSilence, outcomeOf, sqlStateOf } from './faults.ts'
import { columnName, type Sql, sqlOn } from './statement.ts'

/** A transaction in progress. Functions that take a `Tx` never begin or end one. */
export interface Tx extends Sql {
  readonly inTransaction: true
  /** Registers a hook that runs once after the commit, never after a rollback: for work that only speeds things up, such as a wake. */
  afterCommit(work: () => void): void
  /** Registers a hook that runs once after a rollback or an unknown outcome: releases what was reserved for the commit. */
  afterRollback(work: () => void): void
  /** Marks a refusal that is itself recorded: returned from the transaction, it commits what was written. */
  commitRefusal<R extends Refusal>(refusal: R): R
  /**
   * Runs a part that can fail on its own: when it throws or returns a refusal, its writes are rolled back and the transaction continues.
   * Send nothing else on this transaction while it runs.
   */
  savepoint<T>(work: (tx: Tx) => Promise<T>): Promise<T>
}

/**
 * Sends statements of one transaction without waiting in between. Waits for all of them before it reports the first failure:
 * otherwise a later one could be sent after the rollback, on a connection that another caller uses by then.
 */
export async function together<T extends readonly unknown[]>(
  works: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  await Promise.allSettled(works)
  return Promise.all(works)
}

const TRANSACTION_ATTEMPTS = 5

/** `run` opens the transaction and does the work. `onConflict` is called for each run that ended by a conflict with another transaction. */
export async function inTransaction<T>(
  pool: pg.Pool,
  run: (client: pg.PoolClient, tx: Tx) => Promise<T>,
  onConflict: () => void = () => {},
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    const client = await pool.connect()
    let broken: Error | undefined
    const life: Life = { isOver: false, firstFault: undefined }
    const hooks: Hooks = { committed: [], undone: [] }
    const rollback = () =>
      client.query('rollback').catch((fault: Error) => {
        broken = fault
      })
    try {
      const value = await run(client, txOn(whileOpen(client, life), life, hooks))
      life.isOver = true
      if (isRefusal(value) && value !== life.committed) {
        await rollback()
        callEach(hooks.undone)
        return value
      }
      const { command } = await client.query('commit')
      // A transaction with a failed statement answers COMMIT with ROLLBACK, and without an error.
      if (command !== 'COMMIT')
        throw new KernelFault('store.transaction.rolled_back', 'A failed statement was ignored.')
      callEach(hooks.committed)
      return value
    } catch (caught) {
      life.isOver = true
      const error = causeOf(caught, life)
      // The rollback would also have to wait for a connection that still owes an answer.
      if (isSilence(error)) broken = error
      else await rollback()
      callEach(hooks.undone)
      const isConflict = outcomeOf(error) === 'again'
      if (isConflict) onConflict()
      if (isConflict && attempt < TRANSACTION_ATTEMPTS) continue
      throw error
    } finally {
      client.release(broken)
    }
  }
}

/** A connection of another program, of the package `pg`, with an open transaction. */
export type ForeignClient = Pick<pg.ClientBase, 'query'>

/** The settings that the work may change. They are those of the other program again afterwards. */
const BORROWED = ['role', 'lock_timeout']

/**
 * Runs a part of a transaction that another program commits or rolls back. What the part wrote is undone if it throws or returns a
 * refusal. Its hooks after the commit do not run, because only the other program learns of the commit.
 */
export function adoptTransaction<T>(foreign: ForeignClient, role: string, work: (tx: Tx) => Promise<T>): Promise<T> {
  // Savepoints nest: of two that overlap, the rollback of one would undo the other.
  const adopted = (adopting.get(foreign) ?? Promise.resolve()).then(() => adopt(foreign as pg.PoolClient, role, work))
  adopting.set(
    foreign,
    adopted.catch(() => {}),
  )
  return adopted
}

const adopting = new WeakMap<ForeignClient, Promise<unknown>>()

async function adopt<T>(client: pg.PoolClient, role: string, work: (tx: Tx) => Promise<T>): Promise<T> {
  const found = await client.query<Record<string, string>>(
    `select ${BORROWED.map((name) => `current_setting('${name}') as ${name}`).join(', ')}`,
  )
  const outer = { life: { isOver: false, firstFault: undefined }, hooks: { committed: [], undone: [] } }
  const restore = () =>
    client.query(
      `select ${BORROWED.map((name, at) => `set_config('${name}', $${at + 1}, true)`).join(', ')}`,
      BORROWED.map((name) => found.rows[0]?.[name] ?? ''),
    )
  return inSavepoint(client, outer, 1, async (tx) => {
    await tx.query(`set local role ${columnName(role)}`)
    const value = await work(tx)
    await restore()
    return value
  })
}

type Life = { isOver: boolean; firstFault: unknown; committed?: Refusal }
type Hooks = { readonly committed: (() => void)[]; readonly undone: (() => void)[] }

/**
 * Returns the connection until the end of the transaction. When one of several statements that were sent together fails, code in another
 * branch may continue after the rollback. It would write outside of any transaction, or into the next one of this connection.
 */
function whileOpen(client: pg.PoolClient, life: Life): pg.PoolClient {
  const query = async (...args: readonly unknown[]): Promise<unknown> => {
    if (life.isOver) throw new KernelFault('store.transaction.over', 'The transaction of this statement has ended.')
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

/** `in_failed_sql_transaction`: refused because another statement had failed, whose own error may arrive later. */
const AFTER_FAULT = '25P02'

function causeOf(error: unknown, { firstFault }: Life): unknown {
  return sqlStateOf(error) === AFTER_FAULT ? (firstFault ?? error) : error
}

function txOn(client: pg.PoolClient, life: Life, hooks: Hooks, depth = 0): Tx {
  return Object.assign(sqlOn(client), {
    inTransaction: true as const,
    afterCommit: (work: () => void) => void hooks.committed.push(work),
    afterRollback: (work: () => void) => void hooks.undone.push(work),
    commitRefusal<R extends Refusal>(refusal: R): R {
      life.committed = refusal
      return refusal
    },
    savepoint: <T>(work: (tx: Tx) => Promise<T>) => inSavepoint(client, { life, hooks }, depth + 1, work),
  })
}

async function inSavepoint<T>(
  client: pg.PoolClient,
  outer: { readonly life: Life; readonly hooks: Hooks },
  depth: number,
  work: (tx: Tx) => Promise<T>,
): Promise<T> {
  const name = `concord_${depth}`
  const life: Life = { isOver: false, firstFault: undefined }
  const hooks: Hooks = { committed: [], undone: [] }
  const rollback = async () => {
    await client.query(`rollback to savepoint ${name}; release savepoint ${name}`)
    // The transaction works again: a later fault has its own cause.
    outer.life.firstFault = undefined
    callEach(hooks.undone)
  }
  await client.query(`savepoint ${name}`)
  let value: T
  try {
    value = await work(txOn(whileOpen(client, life), life, hooks, depth))
  } catch (caught) {
    life.isOver = true
    const error = causeOf(caught, life)
    const isForWhole = isSilence(error) || outcomeOf(error) === 'again'
    // The whole transaction must be retried, or the connection is lost; a savepoint does not help.
    if (isForWhole || !(await rollback().then(always, never))) outer.hooks.undone.push(...hooks.undone)
    throw error
  }
  life.isOver = true
  if (isRefusal(value) && value !== life.committed) await rollback()
  else {
    await client.query(`release savepoint ${name}`)
    outer.hooks.committed.push(...hooks.committed)
    outer.hooks.undone.push(...hooks.undone)
  }
  return value
}

const always = () => true
const never = () => false

/** A hook that throws changes nothing: it only speeds up work that happens a little later without it. */
function callEach(works: readonly (() => void)[]): void {
  for (const work of works) {
    try {
      work()
    } catch (error) {
      process.emitWarning(error instanceof Error ? error : String(error))
    }
  }
}
