/** Parses migrations: numbered and named SQL files, each with an up part and a down part. */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { type MigrationFile, normaliseMigration, splitMigration } from '#kernel/migration-file'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'

export type Migration = MigrationFile & {
  /** Indexes and checks of existing rows that follow the commit of `up`, without a lock that stops writers. */
  readonly afterCommit: readonly AfterCommit[]
  /** SHA-256 of the normalised text. */
  readonly checksum: string
}

/** `index` is null for a constraint that is validated: to validate it again changes nothing. */
export type AfterCommit = {
  readonly index: { readonly schema: string; readonly name: string } | null
  readonly text: string
}

/** Beside this folder both in `src` and in the built package. */
export const migrationsFolder = fileURLToPath(new URL('../migrations/', import.meta.url))

const AFTER_COMMIT = /^-- after commit$/m
/** A rerun must be able to tell what is left to do: an index can be looked up, and a constraint can be validated twice. */
const CONCURRENT_INDEX = /^create (?:unique )?index concurrently ([a-z0-9_]+)\s+on ([a-z0-9_]+)\.[a-z0-9_]+\s/
const VALIDATION = /^alter table [a-z0-9_]+\.[a-z0-9_]+ validate constraint [a-z0-9_]+$/
/** A migration is one transaction, together with its row; one that ends the transaction itself could stay half applied. */
const TRANSACTION_CONTROL = /^\s*((begin|commit|rollback|abort|end)(\s+(transaction|work))?|start\s+transaction)\s*;/im
/** Bodies of functions and do blocks, where `begin` and `end` have another meaning. */
const DOLLAR_QUOTED = /\$(\w*)\$[\s\S]*?\$\1\$/g

export function checksumOf(text: string): string {
  return createHash('sha256').update(normaliseMigration(text)).digest('hex')
}

export function parseMigration(fileName: string, text: string): Decision<Migration> {
  const file = splitMigration(fileName, text)
  if (typeof file === 'string') return malformed(fileName, file)
  const { down } = file
  const [up = '', after = '', ...more] = file.up.split(AFTER_COMMIT)
  if (more.length > 0) return malformed(fileName, 'it has two lines "-- after commit"')
  if (!up.trim()) return malformed(fileName, 'it has no statement before its line "-- after commit"')
  if (TRANSACTION_CONTROL.test(`${up}\n${down}`.replace(DOLLAR_QUOTED, '$$')))
    return malformed(fileName, 'it begins or ends its own transaction')
  const afterCommit = after
    .split(';')
    .map((each) => each.replaceAll(/^--.*$/gm, '').trim())
    .filter((each) => each !== '')
    .map((each): AfterCommit => {
      const [, name, schema] = CONCURRENT_INDEX.exec(each) ?? []
      return { index: name === undefined || schema === undefined ? null : { schema, name }, text: each }
    })
  if (afterCommit.some(({ index, text: each }) => index === null && !VALIDATION.test(each)))
    return malformed(
      fileName,
      'after the commit it may only create index concurrently name on schema.table, or alter table schema.table validate constraint name',
    )
  return accept({
    ...file,
    up,
    afterCommit,
    checksum: checksumOf(text),
  })
}

/** Returns all migrations of a folder, in order: 1, 2, 3 without a gap, so that "newer" has one meaning. */
export async function loadMigrations(folder: string = migrationsFolder): Promise<Decision<readonly Migration[]>> {
  const fileNames = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()
  const migrations: Migration[] = []
  for (const fileName of fileNames) {
    const parsed = parseMigration(fileName, await readFile(path.join(folder, fileName), 'utf8'))
    if (!parsed.ok) return parsed
    migrations.push(parsed.value)
  }
  const misplaced = migrations.find((migration, index) => migration.number !== index + 1)
  if (misplaced) {
    return refuse('store.migration.gap', `${misplaced.name} does not have the next number.`, {
      path: folder,
      hint: 'Number the files 0001, 0002, 0003 without gaps or duplicates.',
    })
  }
  return accept(migrations)
}

function malformed(fileName: string, why: string): Decision<never> {
  return refuse('store.migration.malformed', `${quote(fileName)} is not a migration: ${why}.`, { path: fileName })
}
