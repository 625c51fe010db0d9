/**
 * A connection for migrating: as the login itself, which owns the tables, and alone in its database.
 *
 * The lock is a session-level advisory lock: it ends with the connection, so a killed runner blocks others only until
 * its backend notices. A transaction pooler would break it; migrate over a direct connection.
 */
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import { type Decision, refuse } from '#kernel/refusal'
import { clientConfigFor } from '../client-config.ts'

const LOCK_KEY = `hashtextextended('concord_migrations', 0)`

export type SessionLimits = {
  /** How long to wait for another runner to finish. */
  readonly lockWaitMs: number
  /** How long one statement may wait for a table in use; while it waits, other users queue behind it. */
  readonly tableWaitMs: number
}

export async function openSession(url: string): Promise<pg.Client> {
  const client = new pg.Client(
    clientConfigFor(url, {
      connectionTimeoutMillis: 10_000,
      keepAlive: true,
      application_name: 'concord-migrate',
      // Building an index has no time limit.
      session: { statement_timeout: 0, idle_in_transaction_session_timeout: 60_000, timezone: 'UTC', role: 'none' },
    }),
  )
  client.on('error', () => {})
  await client.connect()
  return client
}

/** Runs `work` as the only migrating session of the database, or reports the blocking one. */
export async function withMigrationLock<T>(
  client: pg.Client,
  limits: SessionLimits,
  work: () => Promise<Decision<T>>,
): Promise<Decision<T>> {
  if (!(await takeLock(client, limits.lockWaitMs))) {
    return refuse(
      'store.migration.locked',
      `another runner has been migrating this database for over ${limits.lockWaitMs} ms`,
      {
        hint: 'Wait for it, or end its connection, and start again.',
        facts: { holders: await listHolders(client) },
      },
    )
  }
  try {
    await setLockTimeout(client, limits.tableWaitMs)
    return await work()
  } finally {
    // After a broken connection the server has already released it.
    await client.query(`select pg_advisory_unlock(${LOCK_KEY})`).catch(() => {})
  }
}

const LOOK_EVERY_MS = 50

/** Polls: a session that waits inside one statement holds a snapshot, and a concurrent index build waits for snapshots. */
async function takeLock(client: pg.Client, waitMs: number): Promise<boolean> {
  const until = performance.now() + waitMs
  for (;;) {
    const { rows } = await client.query<{ taken: boolean }>(`select pg_try_advisory_lock(${LOCK_KEY}) as taken`)
    if (rows[0]?.taken) return true
    if (performance.now() >= until) return false
    await wait(LOOK_EVERY_MS)
  }
}

/** A concurrent build waits for transactions that began before it, and blocks no writer meanwhile. */
export async function withoutLockTimeout(client: pg.Client, work: () => Promise<void>): Promise<void> {
  const { rows } = await client.query<{ before: string }>(`select current_setting('lock_timeout') as before`)
  await client.query(`select set_config('lock_timeout', '0', false)`)
  await work()
  await client.query(`select set_config('lock_timeout', $1, false)`, [rows[0]?.before ?? '0'])
}

async function setLockTimeout(client: pg.Client, ms: number): Promise<void> {
  await client.query(`select set_config('lock_timeout', $1, false)`, [`${Math.max(1, Math.trunc(ms))}ms`])
}

async function listHolders(client: pg.Client): Promise<readonly object[]> {
  const { rows } = await client.query<{ pid: number; application: string; since: Date | null }>(`
    select a.pid, a.application_name as application, a.backend_start as since
      from pg_locks l join pg_stat_activity a using (pid)
     where l.locktype = 'advisory' and l.granted and l.objsubid = 1
       and l.database = (select oid from pg_database where datname = current_database())
       and (l.classid::bigint << 32 | l.objid::bigint) = ${LOCK_KEY}`)
  return rows
}
