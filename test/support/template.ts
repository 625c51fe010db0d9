/**
 * A database with all migrations applied, from which every test copies its own. It is named after the content of the
 * migrations, so that a changed migration makes a new one.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type pg from 'pg'
import { migrateUp } from '#store'
import { inDatabase, onTestServer, testServerUrl } from './postgres.ts'

/** Set by the global setup, which has prepared the template already. */
export const TEMPLATE_ENV = 'CONCORD_TEST_TEMPLATE'

const folder = fileURLToPath(new URL('../../src/store/migrations/', import.meta.url))
const PREFIX = 'concord_template_'
/** Older ones belong to migrations that have changed since; some are kept for runs that are still under way. */
const KEPT = 5

async function migrationsHash(): Promise<string> {
  // The runner's own table comes from this file.
  const hash = createHash('sha256').update(await readFile(path.join(folder, '../migrate.ts')))
  for (const name of (await readdir(folder, { recursive: true })).sort()) {
    if (name.endsWith('.sql'))
      hash
        .update(name)
        .update('\0')
        .update(await readFile(path.join(folder, name)))
        .update('\0')
  }
  return hash.digest('hex').slice(0, 12)
}

async function migrate(url: string): Promise<void> {
  const migrated = await migrateUp(url)
  if (!migrated.ok)
    throw new Error(`the migrations were refused: ${migrated.reason} (${migrated.code}; ${migrated.hint})`)
}

/** The name of the migrated template; the first caller makes it, the others wait for it. */
export async function prepareTemplate(): Promise<string> {
  const serverUrl = await testServerUrl()
  return onTestServer(async (client) => {
    await client.query('select pg_advisory_lock(hashtext($1))', [PREFIX])
    for (;;) {
      const name = PREFIX + (await migrationsHash())
      // Only a finished one carries the mark; an unfinished one is what a crash left.
      const { rowCount: finished } = await client.query(
        'select from pg_database where datname = $1 and datistemplate',
        [name],
      )
      if (finished === 1) return name
      await client.query(`drop database if exists ${name} with (force)`)
      await client.query(`create database ${name}`)
      await migrate(inDatabase(serverUrl, name))
      // Somebody may have saved a migration while it was being read: the name would then lie.
      if (name !== PREFIX + (await migrationsHash())) continue
      await client.query(`alter database ${name} with is_template true allow_connections false`)
      await dropOldTemplates(client)
    }
  })
}

async function dropOldTemplates(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    'select datname as name from pg_database where starts_with(datname, $1) order by oid desc offset $2',
    [PREFIX, KEPT],
  )
  for (const { name } of rows) {
    await client.query(`alter database ${name} with is_template false`)
    await client.query(`drop database ${name} with (force)`)
  }
}
