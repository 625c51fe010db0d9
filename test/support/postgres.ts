/**
 * The Postgres server that tests share: the one in `TEST_DATABASE_URL`, or our own in a fixed temporary folder. The first test
 * starts it, and all others adopt it, also in later runs. Our own runs with `unsafeForTests` and never flushes to disk. These
 * tests prove constraints, locks, races and SQL, which do not depend on flushes, and a commit takes microseconds instead of
 * milliseconds. Tests of crashes and of the embedded server, and the benchmarks, open their own server with the settings of the
 * product.
 */
import { tmpdir, userInfo } from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { isAlive } from '../../src/store/embedded/postmaster.ts'
import { type EmbeddedPostgres, openEmbeddedPostgres } from '../../src/store/embedded/server.ts'

/** Set by the global setup for the test files that it runs. */
export const SERVER_ENV = 'CONCORD_TEST_SERVER_URL'

/** Followed by the process id of the test file, a count and random digits. */
export const TEST_DATABASE_PREFIX = 'concord_test_'

const sharedHome = path.join(tmpdir(), `concord-test-postgres-18-${userInfo().uid}`)

/** One per process: a second one would be another user of the same server. */
let shared: Promise<EmbeddedPostgres> | undefined

export function openSharedServer(): Promise<EmbeddedPostgres> {
  shared ??= openEmbeddedPostgres({ home: sharedHome, unsafeForTests: true }).then((opened) => {
    if (opened.ok) return opened.value
    throw new Error(`The shared test server is not available. ${opened.reason} (${opened.code}; ${opened.hint})`)
  })
  return shared
}

/** The address at which test databases are created; the login may create databases. */
export async function testServerUrl(): Promise<string> {
  return process.env[SERVER_ENV] ?? process.env['TEST_DATABASE_URL'] ?? (await openSharedServer()).superuserUrl
}

export async function onTestServer<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: await testServerUrl(), application_name: 'concord-test-support' })
  client.on('error', () => {})
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

export function inDatabase(serverUrl: string, name: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}

/** A killed test file leaves its databases behind; its process id shows that it has ended. */
export async function dropLeftOverDatabases(): Promise<void> {
  await onTestServer(async (client) => {
    const { rows } = await client.query<{ name: string }>(
      'select datname as name from pg_database where starts_with(datname, $1)',
      [TEST_DATABASE_PREFIX],
    )
    for (const { name } of rows) {
      const pid = Number(name.slice(TEST_DATABASE_PREFIX.length).split('_')[0])
      if (!(await isAlive(pid))) await client.query(`drop database if exists ${name} with (force)`)
    }
  })
}
