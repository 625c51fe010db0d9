/** The test databases: each test has its own, and a leaked connection is reported. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import pg from 'pg'
import { freshDatabase, openTestDb } from './database.ts'
import { dropLeftOver, TEST_DATABASE_PREFIX } from '../../src/testing/test-database.ts'
import { onTestServer, testServerUrl } from './postgres.ts'

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

test('a client that is not released fails the close, and the database is still dropped', async () => {
  const opened = await openTestDb({ migrated: false, leaveMs: 500 })
  const client = await opened.db.pool.connect()
  await assert.rejects(opened.close(), /1 taken from the pool and not released/)
  client.release(true)
  assert.equal(await exists(opened.name), false)
})

test('another pool on the same database fails the close and is named', async () => {
  const opened = await openTestDb({ migrated: false, leaveMs: 500 })
  const stranger = new pg.Client({ connectionString: opened.url, application_name: 'forgotten-pool' })
  stranger.on('error', () => {})
  await stranger.connect()
  await assert.rejects(opened.close(), /forgotten-pool/)
  assert.equal(await exists(opened.name), false)
})

test('a database is migrated unless asked otherwise', async (t) => {
  const has = async (migrated: boolean) => {
    const { db } = await freshDatabase(t, { migrated })
    const [row] = await db.query<{ there: boolean }>(`select to_regclass('identity.orgs') is not null as there`)
    return row?.there
  }
  assert.deepEqual([await has(true), await has(false)], [true, false])
})

// On a server that other machines share, a process id says nothing.
const onlyOurs = process.env['TEST_DATABASE_URL'] === undefined ? {} : { skip: 'the server is not ours alone' }

test('databases of test files that were killed are dropped, those of living ones stay', onlyOurs, async (t) => {
  const { name: ours } = await freshDatabase(t, { migrated: false })
  const child = execFile(process.execPath, ['-e', ''])
  await new Promise((resolve) => child.once('exit', resolve))
  const orphan = `${TEST_DATABASE_PREFIX}${child.pid}_1_orphan`
  await onTestServer((client) => client.query(`create database ${orphan} strategy file_copy`))
  await dropLeftOver(await testServerUrl())
  assert.deepEqual([await exists(orphan), await exists(ours)], [false, true])
})

test('a test file that forgets to close its database fails', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'concord-forgetful-'))
  t.after(() => rm(folder, { recursive: true }))
  const file = path.join(folder, 'forgetful.test.ts')
  const support = path.join(import.meta.dirname, 'database.ts')
  await writeFile(
    file,
    `import { test } from 'node:test'
     import { openTestDb } from ${JSON.stringify(support)}
     test('opens and forgets', async () => { await openTestDb({ migrated: false }) })`,
  )
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const ended = await new Promise<{ code: unknown; output: string }>((resolve) => {
    execFile(process.execPath, ['--test', '--test-reporter=spec', file], { env }, (error, output) =>
      resolve({ code: error?.code, output }),
    )
  })
  assert.equal(ended.code, 1)
  assert.match(ended.output, /1 test databases were not closed/)
})
