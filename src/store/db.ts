/**
 * The one way to talk to Postgres: a pool whose connections always have error listeners, time limits and keep-alive,
 * named statements for what is hot, Drizzle for what is not, and transactions that retry what Postgres asks to retry.
 */
import { callbackify } from 'node:util'
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import pg from 'pg'
import { KernelFault } from '#kernel/errors'
import { checkRole, clientConfigFor } from './client-config.ts'
import { isSilence, outcomeOf } from './faults.ts'
import { connectPatiently, PatientPool } from './patient-pool.ts'
import type { Statement } from './statement.ts'
import { together } from './together.ts'

export type DbConfig = {
  readonly url: string
  /** 8–16 is enough for two cores: more connections add latency and little else. */
  readonly poolMax?: number
  /** So many are kept once they are there, however long nobody needs them: a full server would not give them back. */
  readonly poolMin?: number
  readonly statementTimeoutMs?: number
  readonly queryTimeoutMs?: number
  readonly idleInTransactionTimeoutMs?: number
  readonly connectTimeoutMs?: number
  readonly applicationName?: string
  /** The database role every connection acts as; unset keeps the login's own (migrations only). */
  readonly role?: string
  /** Told about errors of idle connections; the pool replaces the connection by itself. */
  readonly onConnectionError?: (error: Error) => void
}

export interface Sql {
  /** Runs a named prepared statement and returns its rows. */
  run<Row>(statement: Statement<Row>, values?: readonly unknown[]): Promise<Row[]>
  /** Runs plain SQL, unprepared: for cold paths and tests. */
  query<Row extends object = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>
  /** The query builder on the same connection. */
  readonly drizzle: NodePgDatabase
}

/** A transaction in progress. Functions that take a `Tx` never begin or end one. */
export interface Tx extends Sql {
  readonly inTransaction: true
  /** Called once after the commit, never after a rollback: for what only hurries things along, such as a wake. */
  afterCommit(work: () => void): void
  /** Called once when it came to nothing, or nobody knows what became of it: for what was set aside in the hope of a commit. */
  afterRollback(work: () => void): void
}

export interface Db extends Sql {
  readonly config: DbConfig
  readonly pool: pg.Pool
  /** `opening` replaces `begin`: one or more statements without parameters, sent as one round trip. */
  transaction<T>(work: (tx: Tx) => Promise<T>, opening?: string): Promise<T>
  /**
   * A transaction that starts from what `look` reads or locks, sent along with its `begin`: one round trip for all of it. Nothing but
   * that: a `begin` that was cancelled at that very moment would leave it outside of any transaction, where a write would stand alone.
   */
  transactionFrom<Seen, T>(look: (tx: Tx) => Promise<Seen>, work: (tx: Tx, seen: Seen) => Promise<T>): Promise<T>
  /** A connection of one's own (LISTEN, advisory locks, lanes); the caller ends it. */
  connect(applicationName?: string): Promise<pg.Client>
  close(): Promise<void>
}

const TRANSACTION_ATTEMPTS = 5
const CONNECT_WITHIN_MS = 5_000

function clientConfig(config: DbConfig): pg.ClientConfig {
  return clientConfigFor(config.url, {
    connectionTimeoutMillis: config.connectTimeoutMs ?? CONNECT_WITHIN_MS,
    // A half-open connection answers nothing for ever; this is what ends the wait (measured: 501 ms at 500).
    query_timeout: config.queryTimeoutMs ?? 35_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    application_name: config.applicationName ?? 'concord',
    session: {
      statement_timeout: config.statementTimeoutMs ?? 30_000,
      idle_in_transaction_session_timeout: config.idleInTransactionTimeoutMs ?? 10_000,
      timezone: 'UTC',
      ...(config.role === undefined ? {} : { role: config.role }),
    },
  })
}

type Queryable = pg.Pool | pg.PoolClient | pg.Client

/** Sends statements over a pool or one connection; the query builder is made when somebody asks for it. */
export function sqlOn(queryable: Queryable): Sql {
  let builder: NodePgDatabase | undefined
  return {
    get drizzle() {
      builder ??= drizzle({ client: queryable })
      return builder
    },
    async run<Row>(statement: Statement<Row>, values: readonly unknown[] = []) {
      const result = await queryable.query({ name: statement.name, text: statement.text, values: [...values] })
      return result.rows as Row[]
    },
    async query<Row extends object>(text: string, values: readonly unknown[] = []) {
      const result = await queryable.query(text, [...values])
      return result.rows as Row[]
    },
  }
}

export function openDb(config: DbConfig): Db {
  const onError = config.onConnectionError ?? (() => {})
  const pool = new PatientPool({
    ...clientConfig(config),
    max: config.poolMax ?? 10,
    min: config.poolMin ?? 0,
    // What one transaction asks without waiting in between goes in one round trip; answered in its order all the same.
    pipeline: true,
    idleTimeoutMillis: 30_000,
    // Asked of every new connection before anybody gets it; one round trip in its life.
    verify: callbackify((client: pg.PoolClient) => checkRole(client, config.role)),
  })
  // Without a listener the server ending one idle connection (57P01) takes the whole process down.
  pool.on('error', onError)
  pool.on('connect', (client) => void client.on('error', onError))

  return Object.assign(sqlOn(pool), {
    config,
    pool,
    transaction: <T>(work: (tx: Tx) => Promise<T>, opening = 'begin') =>
      inTransaction(pool, async (client, tx) => {
        await client.query(opening)
        return work(tx)
      }),
    transactionFrom: <Seen, T>(look: (tx: Tx) => Promise<Seen>, work: (tx: Tx, seen: Seen) => Promise<T>) =>
      inTransaction(pool, async (client, tx) => {
        const [, seen] = await together([client.query('begin'), look(tx)])
        return work(tx, seen)
      }),
    async connect(applicationName?: string) {
      const own = clientConfig({ ...config, ...(applicationName ? { applicationName } : {}) })
      const client = await connectPatiently(
        () => connectOnce(own, onError),
        config.connectTimeoutMs ?? CONNECT_WITHIN_MS,
      )
      try {
        await checkRole(client, config.role)
      } catch (error) {
        await client.end().catch(() => {})
        throw error
      }
      return client
    },
    close: () => pool.end(),
  })
}

async function connectOnce(config: pg.ClientConfig, onError: (error: Error) => void): Promise<pg.Client> {
  const client = new pg.Client(config)
  client.on('error', onError)
  await client.connect()
  return client
}

/** `run` opens the transaction and does the work. */
async function inTransaction<T>(pool: pg.Pool, run: (client: pg.PoolClient, tx: Tx) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    const client = await pool.connect()
    let broken: Error | undefined
    const committed: (() => void)[] = []
    const undone: (() => void)[] = []
    try {
      const value = await run(client, txOn(client, committed, undone))
      const { command } = await client.query('commit')
      // A transaction with a failed statement answers COMMIT with ROLLBACK, and without an error.
      if (command !== 'COMMIT') throw new KernelFault('store.transaction.rolled_back', 'a failed statement was ignored')
      callEach(committed)
      return value
    } catch (error) {
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
