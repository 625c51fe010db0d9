/**
 * Migrates a database up to the schema of this code, or down again. Each migration commits together with its row, so a runner that
 * dies leaves the database between two migrations and the next one continues; any number of runners may start at once.
 * Indexes that a migration builds after its commit are marked as pending until they are valid; the next runner completes them.
 */
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { clientConfigFor } from './db.ts'
import { outcomeOf } from './faults.ts'
import { type AppliedMigration, decideKnown, type DownTarget, listPending, planDown, planUp } from './migrate/decide.ts'
import { type AfterCommit, loadMigrations, type Migration, migrationsFolder } from './migrate/migration-file.ts'

/** A URL, or an open `Db`: its pool may act as another role, so the runner connects by itself, as the login. */
export type MigrationTarget = string | { readonly config: { readonly url: string } }

export type MigrateOptions = Partial<SessionLimits> & {
  readonly folder?: string
  /** Runs after each commit. */
  readonly onStep?: (step: { readonly name: string; readonly direction: 'up' | 'down' }) => void
}

export type Migrated = {
  /** The migrations that this call applied or reverted, in order. */
  readonly steps: readonly string[]
  readonly version: number
}

export type MigrationStatus = {
  readonly version: number
  readonly applied: readonly AppliedMigration[]
  readonly pending: readonly string[]
  /** The refusal of `migrateUp` when the database is newer, was edited or has a gap. */
  readonly verdict: Decision<'current' | 'behind'>
}

const DEFAULT_LIMITS: SessionLimits = { lockWaitMs: 120_000, tableWaitMs: 10_000 }

type Direction = 'up' | 'down'
type Plan = (files: readonly Migration[], applied: readonly AppliedMigration[]) => Decision<readonly Migration[]>

export function migrateUp(target: MigrationTarget, options: MigrateOptions = {}): Promise<Decision<Migrated>> {
  return migrate(target, 'up', planUp, options)
}

/** Reverts migrations, newest first. The cluster's roles stay: other databases may use them. */
export function migrateDown(
  target: MigrationTarget,
  options: MigrateOptions & DownTarget,
): Promise<Decision<Migrated>> {
  return migrate(target, 'down', (files, applied) => planDown(files, applied, options), options)
}

/** Reads only, without waiting for a lock. */
export async function migrationStatus(
  target: MigrationTarget,
  { folder = migrationsFolder }: Pick<MigrateOptions, 'folder'> = {},
): Promise<Decision<MigrationStatus>> {
  const files = await loadMigrations(folder)
  if (!files.ok) return files
  return inSession(target, async (client) => {
    const applied = await listApplied(client)
    const known = decideKnown(files.value, applied)
    const left = known.ok ? [...listPending(files.value, applied), ...files.value.slice(known.value.length)] : []
    const pending = left.map(({ name }) => name)
    const verdict = known.ok ? accept(pending.length === 0 ? ('current' as const) : ('behind' as const)) : known
    return accept({ version: applied.at(-1)?.number ?? 0, applied, pending, verdict })
  })
}

async function migrate(
  target: MigrationTarget,
  direction: Direction,
  plan: Plan,
  options: MigrateOptions,
): Promise<Decision<Migrated>> {
  const files = await loadMigrations(options.folder ?? migrationsFolder)
  if (!files.ok) return files
  return inSession(target, async (client) => {
    const before = await listApplied(client)
    const planned = plan(files.value, before)
    // The usual start has nothing to do or is refused, and needs no lock.
    if (!planned.ok) return planned
    const isComplete = direction === 'down' || listPending(files.value, before).length === 0
    if (planned.value.length === 0 && isComplete) return accept({ steps: [], version: before.length })
    return withMigrationLock(client, { ...DEFAULT_LIMITS, ...options }, async () => {
      await createAppliedTable(client)
      // Read again: the previous holder of the lock may have done the work.
      const applied = await listApplied(client)
      const steps = plan(files.value, applied)
      if (!steps.ok) return steps
      const late = direction === 'up' ? listPending(files.value, applied) : []
      for (const migration of late) await complete(client, migration)
      for (const migration of steps.value) {
        const done = await apply(client, migration, direction)
        if (!done.ok) return done
        options.onStep?.({ name: migration.name, direction })
        if (direction === 'up') await complete(client, migration)
      }
      const count = steps.value.length
      return accept({
        steps: [...late, ...steps.value].map(({ name }) => name),
        version: applied.length + (direction === 'up' ? count : -count),
      })
    })
  })
}

/** Builds the indexes and validates the constraints that follow the commit. A second run keeps a valid index and replaces one that a killed runner left invalid. */
async function complete(client: pg.Client, migration: Migration): Promise<void> {
  if (migration.afterCommit.length === 0) return
  await withoutLockTimeout(client, async () => {
    for (const step of migration.afterCommit) await finish(client, step)
  }).catch((error: Error) => {
    const what = `${migration.name} is applied, but an index or a check that follows its commit is missing`
    const text = `${what}: ${error.message}. Run it again.`
    throw faultOf('store.migration.failed', text, error, { migration: migration.name })
  })
  await recordCompleted(client, migration)
}

async function finish(client: pg.Client, { index, text }: AfterCommit): Promise<void> {
  if (index === null) return void (await client.query(text))
  const { schema, name } = index
  const { rows } = await client.query<{ valid: boolean }>(
    `select i.indisvalid as valid from pg_index i join pg_class c on c.oid = i.indexrelid
     join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relname = $2`,
    [schema, name],
  )
  if (rows[0]?.valid) return
  if (rows[0]) await client.query(`drop index concurrently ${schema}.${name}`)
  await client.query(text)
}

async function apply(client: pg.Client, migration: Migration, direction: Direction): Promise<Decision<void>> {
  let isCommitting = false
  try {
    await client.query('begin')
    await client.query(migration[direction])
    await (direction === 'up' ? recordApplied : forgetApplied)(client, migration)
    isCommitting = true
    await client.query('commit')
    return accept(undefined)
  } catch (error) {
    await client.query('rollback').catch(() => {})
    const sqlState = (error as { code?: unknown }).code
    if (sqlState === '55P03') {
      return refuse('store.migration.blocked', `${migration.name} waited too long for a table that is in use.`, {
        hint: 'End long transactions, or try again when there is less traffic. Migrations that were applied before stay applied.',
      })
    }
    // A connection that breaks before the commit rolls back; one that breaks during the commit leaves the outcome unknown.
    const isUnsettled = isCommitting && outcomeOf(error) === 'unknown'
    const what = isUnsettled ? 'may or may not have been applied. Run it again' : 'failed and was rolled back'
    const code = isUnsettled ? 'store.migration.unsettled' : 'store.migration.failed'
    const facts = { migration: migration.name, direction, sqlState }
    throw faultOf(code, `${migration.name} (${direction}) ${what}. ${(error as Error).message}`, error as Error, facts)
  }
}

function faultOf(code: string, text: string, cause: Error, facts: Readonly<Record<string, unknown>>): KernelFault {
  const fault = new KernelFault(code, text, facts)
  fault.cause = cause
  return fault
}

async function inSession<T>(target: MigrationTarget, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = await openSession(typeof target === 'string' ? target : target.config.url)
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/**
 * A session-level advisory lock: it ends with the connection, so a killed runner blocks others only until its backend notices.
 * A transaction pooler would break it; migrate over a direct connection.
 */
const LOCK_KEY = `hashtextextended('concord_migrations', 0)`

type SessionLimits = {
  /** How long to wait for another runner to finish. */
  readonly lockWaitMs: number
  /** How long one statement may wait for a table in use; while it waits, other users queue behind it. */
  readonly tableWaitMs: number
}

/** Connects as the login itself, which owns the tables. */
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
  // A killed runner ends its statement, and with it the lock, within a second. Not every platform of the server has this setting.
  await client.query(`set client_connection_check_interval = '1s'`).catch(() => {})
  return client
}

/** Runs `work` as the only migrating session of the database, or reports the blocking one. */
async function withMigrationLock<T>(
  client: pg.Client,
  limits: SessionLimits,
  work: () => Promise<Decision<T>>,
): Promise<Decision<T>> {
  if (!(await takeLock(client, limits.lockWaitMs))) {
    return refuse(
      'store.migration.locked',
      `Another runner has been migrating this database for over ${limits.lockWaitMs} ms.`,
      {
        hint: 'Wait for it, or end its connection, and start again.',
        facts: { holders: await listHolders(client) },
      },
    )
  }
  try {
    await client.query(`select set_config('lock_timeout', $1, false)`, [`${limits.tableWaitMs}ms`])
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
async function withoutLockTimeout(client: pg.Client, work: () => Promise<void>): Promise<void> {
  const { rows } = await client.query<{ before: string }>(`select current_setting('lock_timeout') as before`)
  await client.query(`select set_config('lock_timeout', '0', false)`)
  await work()
  await client.query(`select set_config('lock_timeout', $1, false)`, [rows[0]?.before ?? '0'])
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

/** One row per applied migration, written with it. Only the functions below read and write it. */
const CREATE = `
  create table if not exists public.concord_migrations (
    number     integer     not null,
    name       text        not null,
    checksum   text        not null,
    applied_at timestamptz not null default clock_timestamp(),
    applied_by text        not null default session_user,
    is_pending boolean     not null default false,
    constraint concord_migrations_pk primary key (number),
    constraint concord_migrations_name_uq unique (name)
  )`

/** A database of an earlier Concord has the table without its last column. */
const ADD_PENDING = `alter table public.concord_migrations add column if not exists is_pending boolean not null default false`

async function createAppliedTable(client: pg.ClientBase): Promise<void> {
  await client.query(`${CREATE}; ${ADD_PENDING}`)
}

/** Empty for a database that Concord has never seen. */
async function listApplied(client: pg.ClientBase): Promise<AppliedMigration[]> {
  const { rows: found } = await client.query<{ there: boolean }>(
    `select to_regclass('public.concord_migrations') is not null as there`,
  )
  if (!found[0]?.there) return []
  const { rows } = await client.query<AppliedMigration>(
    `select number, name, checksum, applied_at as "appliedAt", coalesce((to_jsonb(m)->>'is_pending')::boolean, false) as "isPending"
       from public.concord_migrations as m order by number`,
  )
  return rows
}

/** Pending until what follows the commit is done. */
async function recordApplied(client: pg.ClientBase, { number, name, checksum, afterCommit }: Migration): Promise<void> {
  await client.query(
    'insert into public.concord_migrations (number, name, checksum, is_pending) values ($1, $2, $3, $4)',
    [number, name, checksum, afterCommit.length > 0],
  )
}

async function recordCompleted(client: pg.ClientBase, { number }: Migration): Promise<void> {
  await client.query('update public.concord_migrations set is_pending = false where number = $1', [number])
}

async function forgetApplied(client: pg.ClientBase, { number }: Migration): Promise<void> {
  await client.query('delete from public.concord_migrations where number = $1', [number])
}
