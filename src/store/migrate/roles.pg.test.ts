/** The cluster's roles: the first runner creates them, and they suffice for a login that is not a superuser. */
import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { openTestDb } from '#test/database'
import { migrationFileNames, withOwnRoles } from '#test/migrations'
import { onTestServer } from '#test/postgres'
import { aStoreRowsOf, insertRow, insertStoreRows, type Row, rowsOf, type TableName } from '#test/store-rows'
import { type Db, openDb } from '../db.ts'
import { migrateDown, migrateUp } from '../migrate.ts'

const aPrefix = () => `concord_test_${randomBytes(6).toString('hex')}`

async function dropRoles(...roles: readonly string[]): Promise<void> {
  await onTestServer(async (client) => {
    for (const role of roles) await client.query(`drop role if exists ${role}`)
  })
}

/** Holds every `create role` of the server back until a runner in each of the databases has seen that the roles are missing. */
async function startTogether<T>(databases: readonly string[], start: () => Promise<T>): Promise<T> {
  return onTestServer(async (client) => {
    await client.query('begin')
    await client.query('lock table pg_authid in share mode')
    const started = start()
    const waiting = `select from pg_stat_activity where datname = any ($1) and wait_event_type = 'Lock'`
    while ((await client.query(waiting, [databases])).rowCount !== databases.length) {
      await wait(20)
      await client.query('select pg_stat_clear_snapshot()')
    }
    await client.query('commit')
    return started
  })
}

type PlainLogin = { readonly url: string; readonly superuser: Db; readonly open: (role?: string) => Db }

/** A login that owns a separate database, as on a hosted server. */
async function aPlainLogin(t: TestContext, prefix: string): Promise<PlainLogin> {
  const opened = await openTestDb({ migrated: false })
  const pools: Db[] = []
  t.after(async () => {
    await Promise.all(pools.map((pool) => pool.close()))
    await opened.close()
    await dropRoles(`${prefix}_engine`, `${prefix}_app`, `${prefix}_login`)
  })
  const password = randomBytes(12).toString('hex')
  await onTestServer(async (client) => {
    await client.query(`create role ${prefix}_login login createrole nosuperuser nobypassrls password '${password}'`)
    await client.query(`alter database ${opened.name} owner to ${prefix}_login`)
  })
  const url = new URL(opened.url)
  url.username = `${prefix}_login`
  url.password = password
  const open = (role?: string): Db => {
    const pool = openDb({ url: url.href, poolMax: 1, ...(role === undefined ? {} : { role }) })
    pools.push(pool)
    return pool
  }
  return { url: url.href, superuser: opened.db, open }
}

describe('roles', () => {
  test('an owner that is no member of the engine role carries the whole history into the journal and back', async (t) => {
    const prefix = aPrefix()
    const folder = await withOwnRoles(t, prefix)
    const { url, superuser } = await aPlainLogin(t, prefix)
    const later = (await migrationFileNames()).filter((name) => name >= '0018')
    const texts = new Map<string, string>()
    for (const name of later) {
      texts.set(name, await readFile(path.join(folder, name), 'utf8'))
      await rm(path.join(folder, name))
    }
    assert.ok((await migrateUp(url, { folder })).ok)
    const world = aStoreRowsOf()
    const put = (table: TableName, row: Row) => insertRow(superuser, table, { ...rowsOf[table](world), ...row })
    await put('identity.orgs', { id: world.org })
    await put('identity.users', { id: world.user })
    await put('identity.workspaces', { id: world.workspace })
    await put('concord.commands', { command_id: world.command })
    const about = { workspace_id: world.workspace, command_id: world.command, actor: 'a', trace_id: 't' }
    for (let n = 0; n < 5; n++) {
      const event = { event_id: randomUUID(), purpose: 'audit', event_type: 'command_created', payload: {} }
      await insertRow(superuser, 'concord.domain_events', { ...event, ...about })
    }
    await superuser.query(`revoke ${prefix}_engine from ${prefix}_login granted by ${prefix}_login`)
    for (const [name, text] of texts) await writeFile(path.join(folder, name), text)
    const count = async () => (await superuser.query('select 1 from concord.domain_events')).length
    assert.ok((await migrateUp(url, { folder })).ok)
    assert.equal(await count(), 5)
    assert.ok((await migrateDown(url, { folder, to: 17 })).ok)
    assert.equal(await count(), 5)
  })

  test('twenty databases of one server migrate at once, and none of them knows the roles yet', async (t) => {
    const prefix = aPrefix()
    const folder = await withOwnRoles(t, prefix)
    const databases = await Promise.all(Array.from({ length: 20 }, () => openTestDb({ migrated: false, poolMax: 1 })))
    try {
      const names = databases.map(({ name }) => name)
      const results = await startTogether(names, () =>
        Promise.all(databases.map(({ url }) => migrateUp(url, { folder }))),
      )
      const count = (await migrationFileNames()).length
      assert.deepEqual(
        results.map((result) => (result.ok ? result.value.steps.length : result.code)),
        Array.from({ length: 20 }, () => count),
      )
      const made = await onTestServer((client) =>
        client.query('select rolname from pg_roles where starts_with(rolname, $1) order by 1', [prefix]),
      )
      assert.deepEqual(made.rows, [{ rolname: `${prefix}_app` }, { rolname: `${prefix}_engine` }])
    } finally {
      await Promise.all(databases.map((database) => database.close()))
      await dropRoles(`${prefix}_engine`, `${prefix}_app`)
    }
  })

  test('a login that is no superuser migrates, serves as both roles, and is bound by row security itself', async (t) => {
    const prefix = aPrefix()
    const folder = await withOwnRoles(t, prefix)
    const { url, superuser, open } = await aPlainLogin(t, prefix)
    const migrated = await migrateUp(url, { folder })
    assert.ok(migrated.ok, JSON.stringify(migrated))

    const engine = open(`${prefix}_engine`)
    const here = await insertStoreRows(engine)
    const elsewhere = await insertStoreRows(engine)
    const seen = await engine.transaction(async (tx) => {
      await tx.query(`set local role ${prefix}_app`)
      await tx.query(`select set_config('concord.workspace_id', $1, true)`, [here.workspace])
      return tx.query('select distinct workspace_id from concord.domain_events')
    })
    assert.deepEqual(seen, [{ workspace_id: here.workspace }])

    const owner = open()
    // The owner passes as a member of the engine; without that, forced row security would hide every row.
    assert.deepEqual(await owner.query('select count(distinct workspace_id)::int as seen from concord.commands'), [
      { seen: 2 },
    ])
    await superuser.query(`revoke ${prefix}_engine from ${prefix}_login granted by ${prefix}_login`)
    assert.deepEqual(await owner.query('select count(*)::int as seen from concord.commands'), [{ seen: 0 }])
    await superuser.query(`grant ${prefix}_engine to ${prefix}_login with inherit true, set true`)
    await assert.rejects(owner.query('delete from concord.journal'), { code: '42501', message: /append-only/ })
    const gone = await owner.transaction(async (tx) => {
      await tx.query(`set local concord.retention = 'on'`)
      return tx.query('delete from concord.journal where workspace_id = $1 returning 1', [elsewhere.workspace])
    })
    assert.equal(gone.length, 1)
  })

  test('membership is what opens the roles: a login without it may take neither', async (t) => {
    const stranger = (await aPlainLogin(t, aPrefix())).open()
    for (const role of ['concord_engine', 'concord_app']) {
      await assert.rejects(stranger.query(`set role ${role}`), { code: '42501' })
    }
  })
})
