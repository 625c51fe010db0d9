/**
 * The only access to Postgres: a pool whose connections always have error listeners, timeouts and keep-alive,
 * named statements for hot paths, plain ones for cold paths, and transactions that retry what Postgres asks to retry.
 */
import { callbackify } from 'node:util'
import pg from 'pg'
import { checkRole, clientConfigFor } from './client-config.ts'
import { connectPatiently, PatientPool } from './patient-pool.ts'
import { type Sql, sqlOn } from './sql-on.ts'
import { together } from './together.ts'
import { inTransaction, type Tx } from './transaction.ts'

export type { Sql, Tx }

export type DbConfig = {
  readonly url: string
  /** 8–16 is enough for two cores: more connections add latency and little else. */
  readonly poolMax?: number
  /** Keeps this many open connections even when idle: a full server would not give them back. */
  readonly poolMin?: number
  readonly statementTimeoutMs?: number
  readonly queryTimeoutMs?: number
  readonly idleInTransactionTimeoutMs?: number
  readonly connectTimeoutMs?: number
  readonly applicationName?: string
  /** The database role every connection acts as; unset keeps the login's own (migrations only). */
  readonly role?: string
  /** Receives errors of idle connections; the pool replaces the connection itself. */
  readonly onConnectionError?: (error: Error) => void
}

export interface Db extends Sql {
  readonly config: DbConfig
  readonly pool: pg.Pool
  /** `opening` replaces `begin`: one or more statements without parameters, sent as one round trip. */
  transaction<T>(work: (tx: Tx) => Promise<T>, opening?: string): Promise<T>
  /**
   * Runs a transaction that starts from what `look` reads or locks, sent with its `begin` in one round trip. `look` must not write:
   * if the `begin` was cancelled at that moment, `look` would run outside any transaction and a write would be committed alone.
   */
  transactionFrom<Seen, T>(look: (tx: Tx) => Promise<Seen>, work: (tx: Tx, seen: Seen) => Promise<T>): Promise<T>
  /** Opens a dedicated connection (LISTEN, advisory locks, lanes); the caller ends it. `patienceMs`: how long to wait for a full server. */
  connect(applicationName?: string, patienceMs?: number): Promise<pg.Client>
  close(): Promise<void>
}

const CONNECT_WITHIN_MS = 5_000

function clientConfig(config: DbConfig): pg.ClientConfig {
  return clientConfigFor(config.url, {
    connectionTimeoutMillis: config.connectTimeoutMs ?? CONNECT_WITHIN_MS,
    // A half-open connection never answers; this timeout ends the wait (measured: 501 ms at 500).
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

export function openDb(config: DbConfig): Db {
  const onError = config.onConnectionError ?? (() => {})
  const pool = new PatientPool({
    ...clientConfig(config),
    max: config.poolMax ?? 10,
    min: config.poolMin ?? 0,
    // Statements that one transaction sends without waiting share one round trip; answers keep their order.
    pipeline: true,
    idleTimeoutMillis: 30_000,
    // Runs on every new connection before its first use; one round trip per connection.
    verify: callbackify((client: pg.PoolClient) => checkRole(client, config.role)),
  })
  // Without a listener, a server that ends one idle connection (57P01) crashes the whole process.
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
    async connect(applicationName?: string, patienceMs = config.connectTimeoutMs ?? CONNECT_WITHIN_MS) {
      const own = clientConfig({ ...config, ...(applicationName ? { applicationName } : {}) })
      const client = await connectPatiently(() => connectOnce(own, onError), patienceMs)
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
