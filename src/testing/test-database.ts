/**
 * Throw-away databases for tests: copies of a migrated template on a Postgres of its own, in memory or in the temporary folder. Processes
 * share the server, and the last one stops it. It never flushes to disk.
 */
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, statfsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { tmpdir, userInfo } from 'node:os'
import { extname, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { ConcordError } from '#client'
import type { Decision } from '#kernel/refusal'
import { type EmbeddedPostgres, isAlive, migrateUp, openDb, openEmbeddedPostgres, type Sql } from '#store'

/** Linux keeps this folder in memory. A container often has 64 MB of it; a run of all tests of Concord uses less than 1 GB. */
const MEMORY = '/dev/shm'
const MEMORY_MIN_BYTES = 4e9

/** Another temporary folder is another server. */
const HOME = join(homeFolder(), `concord-testing-18-${userInfo().uid}${tmpdir().replaceAll(/[^\w]/g, '-')}`)
const TEMPLATE = 'concord_template_'
/** Older templates belong to other migrations; these many are kept for programs that still use them. */
const TEMPLATES_KEPT = 12
/** Followed by the id of the process and random digits. */
export const TEST_DATABASE_PREFIX = 'concord_test_'

/** In memory where there is room: ext4 without a journal takes a second for the 660 files of a database after it deleted others. */
function homeFolder(): string {
  if (!existsSync(MEMORY)) return tmpdir()
  const { blocks, bsize } = statfsSync(MEMORY)
  return blocks * bsize < MEMORY_MIN_BYTES ? tmpdir() : MEMORY
}

export type TestDatabase = {
  readonly url: string
  close(): Promise<void>
}

export async function openTestDatabase(): Promise<TestDatabase> {
  const server = await openTestServer()
  const { superuserUrl } = server
  try {
    await dropLeftOver(superuserUrl)
    const name = await createDatabase(superuserUrl, await prepareTemplate(superuserUrl))
    return {
      url: inDatabase(superuserUrl, name),
      async close() {
        await onServer(superuserUrl, async (admin) => {
          await waitUntilLeft(admin, name)
          await admin.query(`drop database if exists ${name} with (force)`)
        })
        await server.stop()
      },
    }
  } catch (error) {
    await server.stop()
    throw error
  }
}

export async function openTestServer(): Promise<EmbeddedPostgres> {
  return valueOf(await openEmbeddedPostgres({ home: HOME, unsafeForTests: true }))
}

/** Longer than a busy machine needs to connect, or for a template that another process makes. */
const PATIENCE_MS = 300_000
const patient = { connectTimeoutMs: PATIENCE_MS, queryTimeoutMs: PATIENCE_MS, statementTimeoutMs: PATIENCE_MS }

async function onServer<T>(url: string, work: (admin: Sql) => Promise<T>): Promise<T> {
  const admin = openDb({ url, poolMax: 1, applicationName: 'concord testing', ...patient })
  try {
    return await work(admin)
  } finally {
    await admin.close()
  }
}

export function inDatabase(serverUrl: string, name: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}

/** Returns the name of a new copy. Copying files takes 13 ms, the logging strategy 100 ms, on a server in memory. */
export async function createDatabase(serverUrl: string, source: string): Promise<string> {
  const name = `${TEST_DATABASE_PREFIX}${process.pid}_${randomBytes(6).toString('hex')}`
  await onServer(serverUrl, (admin) => admin.query(`create database ${name} template ${source} strategy file_copy`))
  return name
}

const LOOKS_MAX = 40
const LOOK_MS = 50

/** A pool is closed before the server has seen the last of its connections end. */
async function waitUntilLeft(admin: Sql, name: string): Promise<void> {
  for (let look = 0; look < LOOKS_MAX; look++) {
    const [here] = await admin.query('select from pg_stat_activity where datname = $1 limit 1', [name])
    if (!here) return
    await setTimeout(LOOK_MS)
  }
}

/** Returns the name of a migrated database. The first caller creates it, and the others wait. Changed migrations create another one. */
export async function prepareTemplate(serverUrl: string): Promise<string> {
  return onServer(serverUrl, async (admin) => {
    // The end of the connection releases it.
    await admin.query('select pg_advisory_lock(hashtext($1))', [TEMPLATE])
    for (;;) {
      const name = TEMPLATE + (await hashMigrations())
      // Only a finished template has the mark; an unfinished one is left from a crash.
      const [finished] = await admin.query('select from pg_database where datname = $1 and datistemplate', [name])
      if (finished) return name
      await admin.query(`drop database if exists ${name} with (force)`)
      await admin.query(`create database ${name}`)
      valueOf(await migrateUp(inDatabase(serverUrl, name)))
      // A migration may have changed during the run; the name would be wrong.
      if (name !== TEMPLATE + (await hashMigrations())) continue
      await admin.query(`alter database ${name} with is_template true allow_connections false`)
      await dropOldTemplates(admin)
    }
  })
}

async function dropOldTemplates(admin: Sql): Promise<void> {
  const rows = await admin.query<{ name: string }>(
    'select datname as name from pg_database where starts_with(datname, $1) order by oid desc offset $2',
    [TEMPLATE, TEMPLATES_KEPT],
  )
  for (const { name } of rows) {
    await admin.query(`alter database ${name} with is_template false`)
    await admin.query(`drop database ${name} with (force)`)
  }
}

async function hashMigrations(): Promise<string> {
  const store = fileURLToPath(new URL('../store/', import.meta.url))
  // This file creates the table of the migrations.
  const hash = createHash('sha256').update(await readFile(join(store, `migrate${extname(import.meta.url)}`)))
  for (const name of (await readdir(join(store, 'migrations'))).toSorted())
    if (name.endsWith('.sql')) hash.update(name).update(await readFile(join(store, 'migrations', name)))
  return hash.digest('hex').slice(0, 12)
}

/** Drops the databases of processes that were killed. */
export async function dropLeftOver(serverUrl: string): Promise<void> {
  await onServer(serverUrl, async (admin) => {
    const rows = await admin.query<{ name: string }>(
      'select datname as name from pg_database where starts_with(datname, $1)',
      [TEST_DATABASE_PREFIX],
    )
    for (const { name } of rows)
      if (!(await isAlive(Number(name.slice(TEST_DATABASE_PREFIX.length).split('_')[0]))))
        await admin.query(`drop database if exists ${name} with (force)`)
  })
}

function valueOf<T>(decision: Decision<T>): T {
  if (decision.ok) return decision.value
  const { code, reason: detail, hint } = decision
  throw new ConcordError(0, { code, detail, ...(hint && { hint }) })
}
