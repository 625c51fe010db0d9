/** Migrates a scheduler file up or down, in one transaction, and records each migration with its checksum. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { KernelFault } from '#kernel/errors'
import { type MigrationFile, normaliseMigration, splitMigration } from '#kernel/migration-file'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { type Database, type SqlReader, query, type WriteTx } from './database.ts'

/** `checksum` is the SHA-256 of the normalised text. */
export type SchedulerMigration = MigrationFile & { readonly checksum: string }

/** Beside this file both in `src` and in the built package. */
const folder = fileURLToPath(new URL('./migrations/', import.meta.url))

/** Migrations ship with the code, so a malformed one is an internal error. */
export function loadSchedulerMigrations(): readonly SchedulerMigration[] {
  const fileNames = readdirSync(folder).filter((name) => name.endsWith('.sql'))
  return fileNames.toSorted().map((fileName, index) => {
    const text = readFileSync(join(folder, fileName), 'utf8')
    const file = splitMigration(fileName, text)
    if (typeof file === 'string' || file.number !== index + 1)
      throw new KernelFault('scheduler.migration', `${fileName} is not migration ${index + 1}.`, { file })
    return { ...file, checksum: createHash('sha256').update(normaliseMigration(text)).digest('hex') }
  })
}

/** "CNCS", in the header of every scheduler file, to recognise files of other programs. */
const APPLICATION_ID = 0x434e_4353

type Applied = { readonly number: number; readonly name: string; readonly checksum: string }

const findTable = query<{ found: number }, { name: string }>(
  `select count(*) as found from sqlite_schema where type = 'table' and name = $name`,
)
const countTables = query<{ count: number }>(`select count(*) as count from sqlite_schema`)
const readApplicationId = query<{ application_id: number }>(`pragma application_id`)
const listApplied = query<Applied>(`select number, name, checksum from scheduler_migrations order by number`)
const recordApplied = query<never, { number: number; name: string; checksum: string; at: number }>(
  `insert into scheduler_migrations (number, name, checksum, applied_at) values ($number, $name, $checksum, $at)`,
)
const forgetApplied = query<never, { number: number }>(`delete from scheduler_migrations where number = $number`)

const CREATE = `
  pragma application_id = ${APPLICATION_ID};
  create table scheduler_migrations (
    number     integer not null,
    name       text    not null,
    checksum   text    not null,
    applied_at integer not null,
    constraint scheduler_migrations_pk primary key (number)
  ) strict`

type MigrateScheduler = {
  readonly at: number
  /** The newest migration afterwards; the last one by default. */
  readonly to?: number
  readonly migrations?: readonly SchedulerMigration[]
}

/** Returns the number of applied migrations. Refuses a file that is foreign, newer or edited. */
export function examineFile(db: Database): Decision<number> {
  return db.read((reader) => decideKnown(db.file, readApplied(reader, db.file), loadSchedulerMigrations()))
}

export function isCurrent(applied: number): boolean {
  return applied === loadSchedulerMigrations().length
}

export function migrate(db: Database, options: MigrateScheduler): Decision<number> {
  const migrations = options.migrations ?? loadSchedulerMigrations()
  const to = options.to ?? migrations.length
  return db.write((tx) => {
    const known = decideKnown(db.file, readApplied(tx, db.file), migrations)
    if (!known.ok) return known
    if (tx.one(findTable, { name: 'scheduler_migrations' })?.found === 0) db.exec(CREATE)
    for (const migration of migrations.slice(known.value, to)) {
      db.exec(migration.up)
      const { number, name, checksum } = migration
      tx.run(recordApplied, { number, name, checksum, at: options.at })
    }
    for (const migration of migrations.slice(to, known.value).toReversed()) {
      db.exec(migration.down)
      tx.run(forgetApplied, { number: migration.number })
    }
    return accept(to)
  })
}

function readApplied(reader: SqlReader | WriteTx, file: string): Decision<readonly Applied[]> {
  if (reader.one(findTable, { name: 'scheduler_migrations' })?.found === 1) return accept(reader.all(listApplied))
  const isEmpty = reader.one(countTables)?.count === 0
  const isUnclaimed = reader.one(readApplicationId)?.application_id === 0
  if (isEmpty && isUnclaimed) return accept([])
  return refuse('scheduler.file.foreign', `${file} is a SQLite file of another program.`, {
    hint: 'Choose another file for the scheduler.',
    facts: { file },
  })
}

function decideKnown(
  file: string,
  applied: Decision<readonly Applied[]>,
  migrations: readonly SchedulerMigration[],
): Decision<number> {
  if (!applied.ok) return applied
  const newer = applied.value.filter((row) => row.number > migrations.length)
  if (newer.length > 0) return isNewer(file, newer, migrations.length)
  for (const [index, row] of applied.value.entries()) {
    const migration = migrations[index]
    if (migration?.number !== row.number || migration.checksum !== row.checksum) {
      return refuse('scheduler.file.changed', `${file} was made with another version of ${row.name}.`, {
        hint: 'Start the version of Concord that made the file.',
        facts: { file, applied: row.checksum, known: migration?.checksum ?? null },
      })
    }
  }
  return accept(applied.value.length)
}

function isNewer(file: string, newer: readonly Applied[], known: number): Refusal {
  const names = newer.map((row) => row.name)
  return refuse('scheduler.file.newer', `${file} was written by a newer version of Concord: ${names.join(', ')}.`, {
    hint: 'Upgrade the program, or roll the migrations back with the newer version first.',
    facts: { file, known, unknown: names },
  })
}
