/** The test support itself: a database for each, isolation between them, and leaks that are seen. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { freshDatabase, openTestDb } from './database.ts'
import { onTestServer } from './postgres.ts'

async function exists(name: string): Promise<boolean> {
  return onTestServer(
    async (client) => (await client.query('select from pg_database where datname = $1', [name])).rowCount === 1,
  )
}

test('every caller has a database of its own, and it is gone after close', async (t) => {
  const [one, other] = await Promise.all([openTestDb({ migrated: false }), freshDatabase(t, { migrated: false })])
  await one.db.query('create table only_here (id int)')
  await assert.rejects(other.db.query('select from only_here'), { code: '42P01' })
  await one.close()
  assert.equal(await exists(one.name), false)
  assert.equal(await exists(other.name), true)
})

test('a client that is not given back fails the close, and the database is dropped all the same', async () => {
  const opened = await openTestDb({ migrated: false })
  const client = await opened.db.pool.connect()
  await assert.rejects(opened.close(), /1 taken from the pool and not given back/)
  client.release(true)
  assert.equal(await exists(opened.name), false)
})

test('another pool on the same database fails the close and is named', async () => {
  const opened = await openTestDb({ migrated: false })
  const stranger = new pg.Client({ connectionString: opened.url, application_name: 'forgotten-pool' })
  stranger.on('error', () => {})
  await stranger.connect()
  await assert.rejects(opened.close(), /forgotten-pool/)
  assert.equal(await exists(opened.name), false)
})
