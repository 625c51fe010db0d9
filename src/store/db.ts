/**
 * The only access to Postgres: a pool whose connections always have error listeners, timeouts and keep-alive,
 * named statements for hot paths, plain ones for cold paths, and transactions that retry what Postgres asks to retry.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { callbackify } from 'node:util'
import pg from 'pg'
import { KernelFault } from '#kernel/errors'
import { isUuid } from '#kernel/ids'
import { sqlStateOf } from './faults.ts'
import { type Sql, sqlOn } from './statement.ts'
import { inTransaction, together, type Tx } from './transaction.ts'

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
  /** Called when a transaction is rolled back because of another one. It runs again, up to five times in all. */
  readonly onConflict?: () => void
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
  transactionFrom<Seen, T>(
    look: (tx: Tx) => Promise<Seen>,
    work: (tx: Tx, seen: Seen) => Promise<T>,
    opening?: string,
  ): Promise<T>
  /** Opens a dedicated connection (LISTEN, advisory locks, lanes); the caller ends it. `patienceMs`: how long to wait for a full server. */
  connect(applicationName?: string, patienceMs?: number): Promise<pg.Client>
  close(): Promise<void>
}

const CONNECT_WITHIN_MS = 5_000

function clientConfig(config: DbConfig): pg.ClientConfig {
  return clientConfigFor(config.url, {
    connectionTimeoutMillis: config.connectTimeoutMs ?? CONNECT_WITHIN_MS,
    // A half-open connection never answers; this timeout ends the wait (measured: 501 ms with a limit of 500).
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
  let isClosing = false
  // The driver does not wait until the server has read that a connection ends, and a server that stops then sends 57P01.
  const onError = (error: Error) => void (isClosing || config.onConnectionError?.(error))
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
      inTransaction(
        pool,
        async (client, tx) => {
          await client.query(opening)
          return work(tx)
        },
        config.onConflict,
      ),
    transactionFrom: <Seen, T>(
      look: (tx: Tx) => Promise<Seen>,
      work: (tx: Tx, seen: Seen) => Promise<T>,
      opening = 'begin',
    ) =>
      inTransaction(
        pool,
        async (client, tx) => {
          const [, seen] = await together([client.query(opening), look(tx)])
          return work(tx, seen)
        },
        config.onConflict,
      ),
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
    close() {
      isClosing = true
      return pool.end()
    },
  })
}

type Scope = {
  /** One read-only transaction. */
  read<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
}

/**
 * The second tenant guard, after the filters of the statements: work in a scope runs as `concord_app` with the
 * workspace set for one transaction, so that row security hides what a missing filter would show.
 */
export function scoped(db: Db, workspaceId: string): Scope {
  // The id becomes part of the text, since several statements in one round trip take no parameters.
  if (!isUuid(workspaceId)) throw new KernelFault('store.scope.invalid', 'A scope needs the id of a workspace.')
  // `true` means "until the end of the transaction": nothing is left for the next user of the connection.
  const enter = `select set_config('role', 'concord_app', true), set_config('concord.workspace_id', '${workspaceId}', true)`
  return {
    read: (work) => db.transaction(work, `begin read only; ${enter}`),
    transaction: (work) => db.transaction(work, `begin; ${enter}`),
  }
}

async function connectOnce(config: pg.ClientConfig, onError: (error: Error) => void): Promise<pg.Client> {
  const client = new pg.Client(config)
  client.on('error', onError)
  await client.connect()
  return client
}

/** The parameters that select the server and how to reach it; all others (limits, names, driver modes) are ours and are dropped. */
const kept = new Set([
  'host',
  'port',
  'user',
  'password',
  'ssl',
  'sslmode',
  'sslcert',
  'sslkey',
  'sslrootcert',
  'sslnegotiation',
  'uselibpqcompat',
])

type OwnSettings = Omit<pg.ClientConfig, 'connectionString' | 'options'> & {
  /** Session settings by name; the URL may set others through its own `options`. */
  readonly session: Readonly<Record<string, string | number>>
}

/**
 * Joins a URL with the settings of every connection. In the driver, parameters of the URL override its configuration, so `?options=` would
 * remove the role and all limits: here our settings come last and win.
 */
export function clientConfigFor(address: string, { session, ...own }: OwnSettings): pg.ClientConfig {
  const ours = Object.entries(session).map(([name, value]) => `-c ${name}=${value}`)
  const { connectionString, options } = takeOptions(address)
  // Of two values for one setting Postgres uses the last.
  return { ...own, connectionString, options: [...options, ...ours].join(' ') }
}

function takeOptions(address: string): { connectionString: string; options: string[] } {
  // The driver itself refuses a text that is not a URL.
  if (!URL.canParse(address)) return { connectionString: address, options: [] }
  const url = new URL(address)
  const options = url.searchParams.getAll('options')
  const strange = [...url.searchParams.keys()].filter((name) => !kept.has(name))
  // Leaves a URL that needs no change as it is.
  if (strange.length === 0) return { connectionString: address, options }
  for (const name of strange) url.searchParams.delete(name)
  return { connectionString: url.href, options }
}

/** Some poolers silently drop the options. The connection would then act as the login, which has all rights. */
async function checkRole(client: pg.ClientBase, role: string | undefined): Promise<void> {
  // `none` is Postgres's word for the login itself.
  if (role === undefined || role === 'none') return
  const { rows } = await client.query<{ role: string }>('select current_user as role')
  const found = rows[0]?.role
  if (found === role) return
  throw new KernelFault('store.connection.role', `The connection acts as ${found} instead of ${role}.`)
}

/** `too_many_connections`: of the server, of the database or of the role. Nothing was sent yet, so a retry is harmless. */
const FULL = '53300'
export function isFull(error: unknown): boolean {
  return sqlStateOf(error) === FULL
}

const PAUSE_MS = 25
const PAUSE_MS_MAX = 400

/**
 * Waits for a server without a free connection, as a pool waits for its own: other processes return theirs. If it failed at once, every turn
 * of a surplus worker would fail and back off, with its own pool half idle (measured: the last of 400 commands 35 s late). After the time
 * limit it throws the server's last error.
 */
async function connectPatiently<T>(connect: () => Promise<T>, withinMs: number): Promise<T> {
  let waitedMs = 0
  for (let pauseMs = PAUSE_MS; ; pauseMs = Math.min(PAUSE_MS_MAX, pauseMs * 2)) {
    try {
      return await connect()
    } catch (error) {
      if (!isFull(error) || waitedMs >= withinMs) throw error
      await sleep(pauseMs)
      waitedMs += pauseMs
    }
  }
}

type Connected = (error: Error | undefined, client: pg.PoolClient | undefined, done: pg.PoolClient['release']) => void

class PatientPool extends pg.Pool {
  readonly #withinMs: number

  constructor(config: pg.PoolConfig) {
    super(config)
    this.#withinMs = config.connectionTimeoutMillis ?? 0
  }

  /** Both forms: the pool's own `query` uses the one with a callback. */
  override connect(): Promise<pg.PoolClient>
  override connect(callback: Connected): void
  override connect(callback?: Connected): Promise<pg.PoolClient> | void {
    const connect = () => connectPatiently(() => super.connect(), this.#withinMs)
    if (!callback) return connect()
    // Nearly always there is a connection, and a promise per statement would only cost time.
    super.connect((error, client, done) => {
      if (!isFull(error)) return callback(error, client, done)
      callbackify(connect)((fault, late) => {
        const failed = fault ?? undefined
        callback(failed, failed ? undefined : late, failed ? () => {} : late.release)
      })
    })
  }
}
