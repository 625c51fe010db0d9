/**
 * Throw-away databases for tests: copies of a migrated template on a Postgres of its own in a temporary folder. Processes share the server,
 * and the last one stops it. It never flushes to disk.
 */
import { createHash, randomBytes } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { ConcordError } from '#client'
import type { Decision } from '#kernel/refusal'
import { migrateUp, openDb, openEmbeddedPostgres, type Sql } from '#store'

const HOME = join(tmpdir(), `concord-testing-18-${userInfo().uid}`)
const TEMPLATE = 'concord_template_'
/** Followed by the id of the process and random digits. */
const COPY = 'concord_copy_'

export type TestDatabase = {
  readonly url: string
  close(): Promise<void>
}

export async function openTestDatabase(): Promise<TestDatabase> {
  const server = valueOf(await openEmbeddedPostgres({ home: HOME, unsafeForTests: true }))
  const at = (name: string) => {
    const url = new URL(server.superuserUrl)
    url.pathname = `/${name}`
    return url.href
  }
  const admin = openDb({ url: server.superuserUrl, poolMax: 1, applicationName: 'concord testing' })
  const stop = async () => {
    await admin.close()
    await server.stop()
  }
  try {
    await dropLeftOver(admin)
    const template = await prepareTemplate(admin, at)
    const name = `${COPY}${process.pid}_${randomBytes(4).toString('hex')}`
    await admin.query(`create database ${name} template ${template} strategy file_copy`)
    return {
      url: at(name),
      async close() {
        await waitUntilLeft(admin, name)
        await admin.query(`drop database if exists ${name} with (force)`)
        await stop()
      },
    }
  } catch (error) {
    await stop()
    throw error
  }
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

/** The first caller makes the template, and the others wait. A changed migration makes another one. */
async function prepareTemplate(admin: Sql, at: (name: string) => string): Promise<string> {
  const name = TEMPLATE + (await hashMigrations())
  await admin.query('select pg_advisory_lock(hashtext($1))', [TEMPLATE])
  try {
    // Only a finished template has the mark; an unfinished one is left from a crash.
    const [finished] = await admin.query('select from pg_database where datname = $1 and datistemplate', [name])
    if (finished) return name
    await admin.query(`drop database if exists ${name} with (force)`)
    await admin.query(`create database ${name}`)
    valueOf(await migrateUp(at(name)))
    await admin.query(`alter database ${name} with is_template true allow_connections false`)
    return name
  } finally {
    await admin.query('select pg_advisory_unlock(hashtext($1))', [TEMPLATE])
  }
}

async function hashMigrations(): Promise<string> {
  const folder = fileURLToPath(new URL('../store/migrations/', import.meta.url))
  const hash = createHash('sha256')
  for (const name of (await readdir(folder)).toSorted())
    if (name.endsWith('.sql')) hash.update(name).update(await readFile(join(folder, name)))
  return hash.digest('hex').slice(0, 12)
}

/** Databases of processes that were killed. */
async function dropLeftOver(admin: Sql): Promise<void> {
  const rows = await admin.query<{ name: string }>(
    'select datname as name from pg_database where starts_with(datname, $1)',
    [COPY],
  )
  for (const { name } of rows)
    if (!isAlive(Number(name.slice(COPY.length).split('_')[0])))
      await admin.query(`drop database if exists ${name} with (force)`)
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

function valueOf<T>(decision: Decision<T>): T {
  if (decision.ok) return decision.value
  const { code, reason: detail, hint } = decision
  throw new ConcordError(0, { code, detail, ...(hint && { hint }) })
}
