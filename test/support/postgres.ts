/**
 * The Postgres server that tests share: the one in `TEST_DATABASE_URL`, or that of `src/testing`. The first test starts it, and all
 * others adopt it, also in later runs. It never flushes to disk. These tests prove constraints, locks, races and SQL, which do not
 * depend on flushes, and a commit takes microseconds instead of milliseconds. Tests of crashes and of the embedded server, and the
 * benchmarks, open their own server with the settings of the product.
 */
import pg from 'pg'
import type { EmbeddedPostgres } from '#store'
import { openTestServer } from '../../src/testing/test-database.ts'

/** Set by the global setup for the test files that it runs. */
export const SERVER_ENV = 'CONCORD_TEST_SERVER_URL'

/** Set by the global setup, which prepares the template. */
export const TEMPLATE_ENV = 'CONCORD_TEST_TEMPLATE'

/** One per process: a second one would be another user of the same server. */
let shared: Promise<EmbeddedPostgres> | undefined

export function openSharedServer(): Promise<EmbeddedPostgres> {
  shared ??= openTestServer()
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
