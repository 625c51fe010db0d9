/**
 * Writes src/store/schema.sql and src/store/rows.ts from a freshly migrated database and freezes the checksums of new migrations in
 * src/store/migrations/checksums.json. With `--check` it writes nothing and fails if one of them is out of date.
 *
 * A frozen checksum never changes: an applied migration stays as it is, and a change is a new file.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { openDb } from '../src/store/db.ts'
import { migrateUp } from '../src/store/migrate.ts'
import { type Catalogue, readCatalogue } from '../test/support/schema/catalogue.ts'
import { loadMigrations } from '../src/store/migrate/migration-file.ts'
import { drawRows, drawSchema, firstDifference } from '../test/support/schema/picture.ts'
import { readFlags } from './read-flags.ts'
import { onTestServer, testServerUrl } from '../test/support/postgres.ts'
import { createDatabase, inDatabase } from '../src/testing/test-database.ts'

const dumpFile = new URL('../src/store/schema.sql', import.meta.url)
const rowsFile = new URL('../src/store/rows.ts', import.meta.url)
const checksumsFile = new URL('../src/store/migrations/checksums.json', import.meta.url)
const { values: flags } = readFlags({ options: { check: { type: 'boolean', default: false } } })

async function readMigrated(): Promise<Catalogue> {
  const serverUrl = await testServerUrl()
  const name = await createDatabase(serverUrl, 'template1')
  const db = openDb({ url: inDatabase(serverUrl, name), poolMax: 1, applicationName: 'concord-schema' })
  try {
    const migrated = await migrateUp(db)
    if (!migrated.ok) throw new Error(migrated.reason)
    return await readCatalogue(db)
  } finally {
    await db.close()
    await onTestServer((client) => client.query(`drop database ${name} with (force)`))
  }
}

async function freezeChecksums(frozen: Readonly<Record<string, string>>): Promise<Record<string, string>> {
  const migrations = await loadMigrations()
  if (!migrations.ok) throw new Error(migrations.reason)
  const edited = migrations.value.find(({ name, checksum }) => frozen[name] !== undefined && frozen[name] !== checksum)
  if (edited)
    throw new Error(`${edited.name} was edited after its checksum was frozen; put the change into a new migration`)
  return Object.fromEntries(migrations.value.map(({ name, checksum }) => [name, checksum]))
}

async function readOr(file: URL, otherwise: string): Promise<string> {
  return readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return otherwise
    throw error
  })
}

async function settle(file: URL, before: string, now: string): Promise<boolean> {
  const difference = firstDifference(before, now)
  if (difference === undefined) return true
  const name = file.pathname.split('/').slice(-3).join('/')
  if (flags.check) process.stderr.write(`${name} is out of date, ${difference}\n`)
  else await writeFile(file, now)
  if (!flags.check) process.stdout.write(`${name} written\n`)
  return !flags.check
}

const frozenText = await readOr(checksumsFile, '{}\n')
const frozen = JSON.parse(frozenText) as Record<string, string>
const checksums = `${JSON.stringify(await freezeChecksums(frozen), null, 2)}\n`
const catalogue = await readMigrated()
const settled = [
  await settle(dumpFile, await readOr(dumpFile, ''), drawSchema(catalogue)),
  await settle(rowsFile, await readOr(rowsFile, ''), drawRows(catalogue)),
  await settle(checksumsFile, frozenText, checksums),
]
if (settled.includes(false)) {
  process.stderr.write('run: node scripts/schema.ts\n')
  process.exitCode = 1
}
