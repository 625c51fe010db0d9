/**
 * A migrated database that every test copies. Its name contains a hash of the migrations, so a changed migration creates a new
 * one.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type pg from 'pg'
import { migrateUp } from '#store'
import { inDatabase, onTestServer, testServerUrl } from './postgres.ts'

/** Set by the global setup, which prepares the template. */
export const TEMPLATE_ENV = 'CONCORD_TEST_TEMPLATE'

const folder = fileURLToPath(new URL('../../src/store/migrations/', import.meta.url))
const PREFIX = 'concord_template_'
/** Older templates belong to earlier migrations; some are kept for other runs. */
const KEPT = 5

async function migrationsHash(): Promise<string> {
  // This file creates the table of the runner.
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
    throw new Error(`The migrations were refused. ${migrated.reason} (${migrated.code}; ${migrated.hint})`)
}

/** Returns the name of the migrated template. The first caller creates it, and the others wait. */
export async function prepareTemplate(): Promise<string> {
  const serverUrl = await testServerUrl()
  return onTestServer(async (client) => {
    await client.query('select pg_advisory_lock(hashtext($1))', [PREFIX])
    for (;;) {
      const name = PREFIX + (await migrationsHash())
      // Only a finished template has the mark; an unfinished one is left from a crash.
      const { rowCount: finished } = await client.query(
        'select from pg_database where datname = $1 and datistemplate',
        [name],
      )
      if (finished === 1) return name
      await client.query(`drop database if exists ${name} with (force)`)
      await client.query(`create database ${name}`)
      await migrate(inDatabase(serverUrl, name))
      // A migration may have changed during the run; the name would be wrong.
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
