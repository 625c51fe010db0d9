/** Migrates a scheduler file up or down, in one transaction, and records each migration with its checksum. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { type Database, type Reader, statement, type Tx } from './database.ts'

export type Migration = {
  readonly number: number
  /** The file name without its extension. */
  readonly name: string
  readonly up: string
  readonly down: string
  /** SHA-256 of the text, with line ends and trailing blanks normalised. */
  readonly checksum: string
}

/** Beside this file both in `src` and in the built package. */
const folder = fileURLToPath(new URL('./migrations/', import.meta.url))

export function loadMigrations(): readonly Migration[] {
  const names = readdirSync(folder).filter((name) => name.endsWith('.sql'))
  return names
    .toSorted()
    .map((fileName, index) => parseMigration(fileName, readFileSync(join(folder, fileName), 'utf8'), index + 1))
}

/** Migrations ship with the code, so a malformed one is an internal error. */
function parseMigration(fileName: string, text: string, number: number): Migration {
  const plain = normalise(text)
  const [up, down, ...more] = plain.split(/^-- down$/m)
  const name = fileName.replace(/\.sql$/, '')
  if (!up?.trim() || !down?.trim() || more.length > 0 || !name.startsWith(`${String(number).padStart(4, '0')}_`)) {
    throw new KernelFault(
      'scheduler.migration',
      `${fileName} is not migration ${number} with one up and one down part.`,
    )
  }
  return { number, name, up, down, checksum: createHash('sha256').update(plain).digest('hex') }
}

function normalise(text: string): string {
  const lines = text.replace(/^\uFEFF/, '').split(/\r\n|\r|\n/)
  return `${lines
    .map((line) => line.trimEnd())
    .join('\n')
    .trimEnd()}\n`
}

/** "CNCS", in the header of every scheduler file, to recognise files of other programs. */
const APPLICATION_ID = 0x434e_4353

type Applied = { readonly number: number; readonly name: string; readonly checksum: string }

const findTable = statement<{ found: number }, { name: string }>(
  'find_table',
  `select count(*) as found from sqlite_schema where type = 'table' and name = $name`,
)
const countTables = statement<{ count: number }>('count_tables', `select count(*) as count from sqlite_schema`)
const readApplicationId = statement<{ application_id: number }>('read_application_id', `pragma application_id`)
const listApplied = statement<Applied>(
  'list_applied',
  `select number, name, checksum from scheduler_migrations order by number`,
)
const recordApplied = statement<never, { number: number; name: string; checksum: string; at: number }>(
  'record_applied',
  `insert into scheduler_migrations (number, name, checksum, applied_at) values ($number, $name, $checksum, $at)`,
)
const forgetApplied = statement<never, { number: number }>(
  'forget_applied',
  `delete from scheduler_migrations where number = $number`,
)

const CREATE = `
  pragma application_id = ${APPLICATION_ID};
  create table scheduler_migrations (
    number     integer not null,
    name       text    not null,
    checksum   text    not null,
    applied_at integer not null,
    constraint scheduler_migrations_pk primary key (number)
  ) strict`

export type MigrateOptions = {
  readonly at: number
  /** The newest migration afterwards; the last one by default. */
  readonly to?: number
  readonly migrations?: readonly Migration[]
}

/** Returns the number of applied migrations. Refuses a file that is foreign, newer or edited. */
export function examineFile(db: Database, migrations: readonly Migration[] = loadMigrations()): Decision<number> {
  const examined = db.read((reader) => decideKnown(db.file, readApplied(reader, db.file), migrations))
  return examined.ok ? examined.value : examined
}

export function isCurrent(applied: number, migrations: readonly Migration[] = loadMigrations()): boolean {
  return applied === migrations.length
}

export function migrate(db: Database, options: MigrateOptions): Decision<number> {
  const migrations = options.migrations ?? loadMigrations()
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

function readApplied(reader: Reader | Tx, file: string): Decision<readonly Applied[]> {
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
  migrations: readonly Migration[],
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
