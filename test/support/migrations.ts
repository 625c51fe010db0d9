/** Folders of migrations for tests of the runner, a runner in a child process, and a picture of the result. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { TestContext } from 'node:test'
import type { Db } from '../../src/store/db.ts'
import { migrationStatus } from '../../src/store/migrate.ts'
import { migrationsFolder } from '../../src/store/migrate/migration-file.ts'
import { readCatalogue } from './schema/catalogue.ts'
import { drawSchema } from './schema/picture.ts'

/** A folder with these files, removed after the test. */
export async function aMigrationFolder(t: TestContext, files: Readonly<Record<string, string>> = {}): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'concord-migrations-'))
  t.after(() => rm(folder, { recursive: true }))
  for (const [name, text] of Object.entries(files)) await writeFile(path.join(folder, name), text)
  return folder
}

export async function migrationFileNames(): Promise<string[]> {
  return (await readdir(migrationsFolder)).filter((name) => name.endsWith('.sql')).sort()
}

/** The product's migrations with changes. */
export async function copyOfMigrations(
  t: TestContext,
  change: (text: string, name: string) => string = (text) => text,
): Promise<string> {
  const folder = await aMigrationFolder(t)
  await cp(migrationsFolder, folder, { recursive: true })
  for (const name of await migrationFileNames()) {
    const file = path.join(folder, name)
    await writeFile(file, change(await readFile(file, 'utf8'), name))
  }
  return folder
}

/** The product's migrations with their own cluster roles, which no other database of the server uses. */
export async function withOwnRoles(t: TestContext, prefix: string): Promise<string> {
  return copyOfMigrations(t, (text) =>
    text.replaceAll('concord_engine', `${prefix}_engine`).replaceAll('concord_app', `${prefix}_app`),
  )
}

/** The number of the newest applied migration; 0 for a database without Concord. */
export async function versionOf(target: Parameters<typeof migrationStatus>[0]): Promise<number> {
  const status = await migrationStatus(target)
  return status.ok ? status.value.version : Number.NaN
}

export async function pictureOf(db: Db): Promise<string> {
  return drawSchema(await readCatalogue(db))
}

/** Runs `migrateUp` in a child process, which prints the name of each migration after its commit. */
export function spawnRunner(url: string, folder: string = migrationsFolder): ChildProcessWithoutNullStreams {
  const runner = new URL('../../src/store/migrate.ts', import.meta.url).href
  const program = `
    const { migrateUp } = await import(${JSON.stringify(runner)})
    const onStep = ({ name }) => process.stdout.write(name + '\\n')
    const migrated = await migrateUp(${JSON.stringify(url)}, { folder: ${JSON.stringify(folder)}, onStep })
    if (!migrated.ok) throw new Error(migrated.reason)`
  return spawn(process.execPath, ['--input-type=module', '--eval', program])
}
