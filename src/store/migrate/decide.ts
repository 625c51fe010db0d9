/** Decides what to do about a database, from its applied migrations and those of the code. Pure. */
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import type { Migration } from './migration-file.ts'

export type AppliedMigration = {
  readonly number: number
  readonly name: string
  readonly checksum: string
  readonly appliedAt: Date
  /** Its transaction is committed; an index that is built after the commit is missing or invalid. */
  readonly isPending: boolean
}

/** Decides whether this code may work on the database: nothing unknown, nothing edited, nothing left out. */
export function decideKnown(
  files: readonly Migration[],
  applied: readonly AppliedMigration[],
): Decision<readonly Migration[]> {
  const newest = files.at(-1)?.number ?? 0
  const unknown = applied.filter((row) => row.number > newest)
  if (unknown.length > 0) return newer(unknown, newest)
  for (const row of applied) {
    const file = files[row.number - 1]
    if (file?.name !== row.name || file.checksum !== row.checksum) return changed(row, file)
  }
  const missing = files.find(
    (file, index) => index < applied.length && !applied.some((row) => row.number === file.number),
  )
  if (missing) {
    return refuse('store.migration.gap', `The database has later migrations but not ${missing.name}.`, {
      hint: 'Restore the database from a backup, or apply the missing file yourself and record it.',
      facts: { missing: missing.name, applied: applied.map((row) => row.name) },
    })
  }
  return accept(files.slice(0, applied.length))
}

/** Returns the migrations still to be applied, in order. */
export function planUp(
  files: readonly Migration[],
  applied: readonly AppliedMigration[],
): Decision<readonly Migration[]> {
  const known = decideKnown(files, applied)
  return known.ok ? accept(files.slice(known.value.length)) : known
}

/** Returns the applied migrations whose indexes are still to be built. */
export function listPending(files: readonly Migration[], applied: readonly AppliedMigration[]): readonly Migration[] {
  return files.filter(({ number }) => applied.some((row) => row.number === number && row.isPending))
}

export type DownTarget =
  /** The last migration to keep; 0 reverts everything. */
  { readonly to: number } | { readonly steps: number }

/** Returns the migrations to be reverted, newest first. */
export function planDown(
  files: readonly Migration[],
  applied: readonly AppliedMigration[],
  target: DownTarget,
): Decision<readonly Migration[]> {
  const known = decideKnown(files, applied)
  if (!known.ok) return known
  const count = known.value.length
  const to = 'to' in target ? target.to : count - target.steps
  if (!Number.isInteger(to) || to < 0 || to > count) {
    return refuse('store.migration.target', `The database is at ${count} and cannot be reverted to ${to}.`, {
      facts: { version: count, to },
    })
  }
  return accept(known.value.slice(to).reverse())
}

function newer(unknown: readonly AppliedMigration[], newest: number): Refusal {
  const names = unknown.map((row) => row.name)
  return refuse('store.schema.newer', `A newer Concord has migrated the database: ${names.join(', ')}.`, {
    path: 'DATABASE_URL',
    hint: 'Start the newer Concord, or use it to revert its migrations first.',
    facts: { known: newest, unknown: names },
  })
}

function changed(row: AppliedMigration, file: Migration | undefined): Refusal {
  return refuse('store.migration.changed', `${row.name} has changed since it was applied.`, {
    path: `${row.name}.sql`,
    hint: 'Restore the file, and put the change into a new migration.',
    facts: { applied: row.checksum, file: file?.checksum ?? null, fileName: file?.name ?? null },
  })
}
