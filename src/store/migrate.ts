/**
 * Brings a database to the schema of this code and back. Each migration commits together with its row, so a runner that
 * dies leaves the database between two migrations and the next one carries on; any number of runners may start at once.
 * Indexes that a migration builds after its commit are marked as pending until they are whole; the next runner completes them.
 */
import type pg from 'pg'
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { outcomeOf } from './faults.ts'
import { createAppliedTable, forgetApplied, listApplied, recordApplied, recordCompleted } from './migrate/applied.ts'
import { type AppliedMigration, decideKnown, type DownTarget, listPending, planDown, planUp } from './migrate/decide.ts'
import { type ConcurrentIndex, loadMigrations, type Migration, migrationsFolder } from './migrate/migration-file.ts'
import { openSession, type SessionLimits, withMigrationLock, withoutLockTimeout } from './migrate/session.ts'

/** A URL, or an open `Db`: its pool may act as another role, so the runner connects by itself, as the login. */
export type MigrationTarget = string | { readonly config: { readonly url: string } }

export type MigrateOptions = Partial<SessionLimits> & {
  readonly folder?: string
  /** Told after each commit. */
  readonly onStep?: (step: { readonly name: string; readonly direction: 'up' | 'down' }) => void
}

export type Migrated = {
  /** Names of the migrations that this call applied or took back, in the order it did so. */
  readonly steps: readonly string[]
  readonly version: number
}

export type MigrationStatus = {
  readonly version: number
  readonly applied: readonly AppliedMigration[]
  readonly pending: readonly string[]
  /** Not ok: newer, edited or with a hole; the refusal that `migrateUp` would give. */
  readonly verdict: Decision<'current' | 'behind'>
}

const DEFAULT_LIMITS: SessionLimits = { lockWaitMs: 120_000, tableWaitMs: 10_000 }

type Direction = 'up' | 'down'
type Plan = (files: readonly Migration[], applied: readonly AppliedMigration[]) => Decision<readonly Migration[]>

export function migrateUp(target: MigrationTarget, options: MigrateOptions = {}): Promise<Decision<Migrated>> {
  return migrate(target, 'up', planUp, options)
}

/** Takes migrations back, newest first. The cluster's roles stay: other databases may use them. */
export function migrateDown(
  target: MigrationTarget,
  options: MigrateOptions & DownTarget,
): Promise<Decision<Migrated>> {
  return migrate(target, 'down', (files, applied) => planDown(files, applied, options), options)
}

/** Reads only, and waits for nobody. */
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

/** The number of the newest applied migration; 0 for a database that Concord has never seen. */
export async function schemaVersion(target: MigrationTarget): Promise<number> {
  return inSession(target, async (client) => (await listApplied(client)).at(-1)?.number ?? 0)
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
    // The common start: nothing to do, or no right to do it. Neither needs to wait for anybody.
    if (!planned.ok) return planned
    const isComplete = direction === 'down' || listPending(files.value, before).length === 0
    if (planned.value.length === 0 && isComplete) return accept({ steps: [], version: before.length })
    return withMigrationLock(client, { ...DEFAULT_LIMITS, ...options }, async () => {
      await createAppliedTable(client)
      // Read again: whoever held the lock before us may have done the work.
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

/** Builds what follows the commit. Repeated, it keeps a whole index and replaces one that a killed runner left invalid. */
async function complete(client: pg.Client, migration: Migration): Promise<void> {
  if (migration.afterCommit.length === 0) return
  await withoutLockTimeout(client, async () => {
    for (const index of migration.afterCommit) await buildIndex(client, index)
  }).catch((error: Error) => {
    const what = `is applied, but an index that follows its commit is not built; run it again: ${error.message}`
    const fault = new KernelFault('store.migration.failed', `${migration.name} ${what}`, { migration: migration.name })
    fault.cause = error
    throw fault
  })
  await recordCompleted(client, migration)
}

async function buildIndex(client: pg.Client, { schema, name, text }: ConcurrentIndex): Promise<void> {
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
      return refuse('store.migration.blocked', `${migration.name} waited too long for a table that others use`, {
        hint: 'End long transactions, or try again when there is less traffic. What was applied before stays applied.',
      })
    }
    // A connection that breaks earlier takes everything along; one that breaks in the commit leaves the answer open.
    const isUnsettled = isCommitting && outcomeOf(error) === 'unknown'
    const what = isUnsettled ? 'may or may not have been applied; run it again' : 'failed and left nothing behind'
    const fault = new KernelFault(
      isUnsettled ? 'store.migration.unsettled' : 'store.migration.failed',
      `${migration.name} (${direction}) ${what}: ${(error as Error).message}`,
      { migration: migration.name, direction, sqlState },
    )
    fault.cause = error
    throw fault
  }
}

async function inSession<T>(target: MigrationTarget, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = await openSession(typeof target === 'string' ? target : target.config.url)
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
