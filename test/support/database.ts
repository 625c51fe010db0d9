/**
 * Gives each test a migrated database and drops it afterwards. A connection that is still open fails the test, because it would
 * be a leak in the product. `node --test src/…/x.pg.test.ts` works without any setup: the first use starts or adopts the shared
 * server.
 */
import { after, type TestContext } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { type Db, type DbConfig, openDb } from '#store'
import { createDatabase, inDatabase, prepareTemplate } from '../../src/testing/test-database.ts'
import { onTestServer, TEMPLATE_ENV, testServerUrl } from './postgres.ts'

export type TestDb = {
  readonly db: Db
  readonly url: string
  readonly name: string
  close(): Promise<void>
}

export type TestDbOptions = Omit<Partial<DbConfig>, 'url'> & {
  /** False creates an empty database, for tests of the migrations. */
  readonly migrated?: boolean
  /** How long `close` waits for connections to end. */
  readonly leaveMs?: number
}

/** Long enough for a busy machine to accept a connection or to notice that a client has left. */
const PATIENCE_MS = 45_000
const openNow = new Set<TestDb>()
let template: Promise<string> | undefined

function templateName(): Promise<string> {
  const prepared = process.env[TEMPLATE_ENV]
  template ??= prepared ? Promise.resolve(prepared) : testServerUrl().then(prepareTemplate)
  return template
}

/** Opens a database until `close()`. One that is open at the end of the file fails the file. */
export async function openTestDb({
  migrated = true,
  leaveMs = PATIENCE_MS,
  ...config
}: TestDbOptions = {}): Promise<TestDb> {
  const source = migrated ? await templateName() : 'template1'
  const serverUrl = await testServerUrl()
  const name = await createDatabase(serverUrl, source)
  const url = inDatabase(serverUrl, name)
  const db = openDb({ poolMax: 4, applicationName: 'concord-test', connectTimeoutMs: PATIENCE_MS, ...config, url })
  let closing: Promise<void> | undefined
  const opened: TestDb = {
    db,
    url,
    name,
    close() {
      closing ??= closeAndDrop(db, name, leaveMs).finally(() => openNow.delete(opened))
      return closing
    },
  }
  openNow.add(opened)
  return opened
}

/** A database that lasts as long as the test `t`. */
export async function freshDatabase(t: TestContext, options: TestDbOptions = {}): Promise<TestDb> {
  const opened = await openTestDb(options)
  t.after(() => opened.close())
  return opened
}

async function closeAndDrop(db: Db, name: string, leaveMs: number): Promise<void> {
  const leaks = await findLeaks(db, name, leaveMs)
  // After a leak, `close` would wait for the client forever; a forced drop ends its connection.
  if (leaks.length === 0 && !db.pool.ended) await db.close()
  const strangers = leaks.length > 0 ? leaks : await listConnections(name, leaveMs)
  await onTestServer((client) => client.query(`drop database if exists ${name} with (force)`))
  if (leaks.length > 0) db.pool.end().catch(() => {})
  if (strangers.length > 0) throw new Error(`Connections to ${name} are still open: ${strangers.join(', ')}`)
}

/** Finds clients that were taken from the pool and not released. */
async function findLeaks(db: Db, name: string, leaveMs: number): Promise<string[]> {
  for (let waitedMs = 0; ; waitedMs += 25) {
    const taken = db.pool.totalCount - db.pool.idleCount
    if (db.pool.ended || taken === 0) return []
    if (waitedMs >= leaveMs) return [`${taken} taken from the pool and not released`, ...(await listConnections(name))]
    await wait(25)
  }
}

async function listConnections(name: string, leaveMs = 0): Promise<string[]> {
  return onTestServer(async (client) => {
    for (let waitedMs = 0; ; waitedMs += 25) {
      const { rows } = await client.query<{ who: string }>(
        `select format('%s (%s; %s)', application_name, state, left(query, 80)) as who from pg_stat_activity
          where datname = $1 and backend_type = 'client backend'`,
        [name],
      )
      if (rows.length === 0 || waitedMs >= leaveMs) return rows.map((row) => row.who)
      await wait(25)
    }
  })
}

after(async () => {
  const forgotten = [...openNow]
  await Promise.allSettled(forgotten.map((opened) => opened.close()))
  if (forgotten.length > 0)
    throw new Error(
      `${forgotten.length} test databases were not closed: ${forgotten.map(({ name }) => name).join(', ')}`,
    )
})
