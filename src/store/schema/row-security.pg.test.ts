/** The second wall between tenants: with no filter in any query, the request role sees and writes its own workspace only. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openTestDb, type TestDb } from '#test/database'
import { insertRow, insertStoreRows, rowsOf, tableNames, type StoreRows } from '#test/store-rows'
import type { Tx } from '../transaction.ts'

const workspaceTables = tableNames.filter((table) => table.startsWith('concord.'))
/** Read by both roles, written by the login alone. */
const ownersTable = 'concord.history_archives'
const orgTables = ['identity.users', 'identity.org_roles', 'identity.org_role_memberships'] as const

describe('row security', () => {
  let opened: TestDb
  let here: StoreRows
  let elsewhere: StoreRows

  before(async () => {
    // As in the service: the pool acts as the engine, and one connection serves all callers in turn.
    opened = await openTestDb({ role: 'concord_engine', poolMax: 1 })
    here = await insertStoreRows(opened.db)
    elsewhere = await insertStoreRows(opened.db)
    await opened.db.transaction(async (tx) => {
      await tx.query('set local role none')
      for (const world of [here, elsewhere]) await insertRow(tx, ownersTable, rowsOf[ownersTable](world))
    })
  })
  after(() => opened.close())

  function asApp<T>(workspace: string | undefined, work: (tx: Tx) => Promise<T>): Promise<T> {
    return opened.db.transaction(async (tx) => {
      await tx.query('set local role concord_app')
      if (workspace !== undefined) await tx.query(`select set_config('concord.workspace_id', $1, true)`, [workspace])
      return work(tx)
    })
  }
  const distinct = async (tx: Pick<Tx, 'query'>, table: string, column: string) =>
    (await tx.query<{ id: string }>(`select distinct ${column}::text as id from ${table} order by 1`)).map(
      ({ id }) => id,
    )

  for (const table of workspaceTables) {
    test(`${table}: the request role sees its workspace, the engine sees both, and without a workspace nothing is visible`, async () => {
      assert.deepEqual(await asApp(here.workspace, (tx) => distinct(tx, table, 'workspace_id')), [here.workspace])
      assert.deepEqual(await asApp(elsewhere.workspace, (tx) => distinct(tx, table, 'workspace_id')), [
        elsewhere.workspace,
      ])
      assert.deepEqual(await asApp(undefined, (tx) => distinct(tx, table, 'workspace_id')), [])
      assert.deepEqual(await asApp('', (tx) => distinct(tx, table, 'workspace_id')), [])
      assert.deepEqual(await distinct(opened.db, table, 'workspace_id'), [here.workspace, elsewhere.workspace].sort())
    })

    test(`${table}: the request role cannot insert a row for another workspace`, async () => {
      const foreign = () => rowsOf[table](elsewhere)
      for (const workspace of [here.workspace, undefined]) {
        const attempt = asApp(workspace, (tx) => insertRow(tx, table, foreign()))
        const message = table === ownersTable ? /permission denied/ : /row-level security/
        await assert.rejects(attempt, { code: '42501', message })
      }
    })
  }

  test('the request role cannot change a foreign row, nor give one of its own away', async () => {
    const changed = await asApp(here.workspace, (tx) =>
      tx.query(`update concord.commands set task_name = 'x' returning workspace_id`),
    )
    assert.deepEqual(new Set(changed.map((row) => row['workspace_id'])), new Set([here.workspace]))
    const given = asApp(here.workspace, (tx) =>
      tx.query('update concord.commands set workspace_id = $1', [elsewhere.workspace]),
    )
    await assert.rejects(given, { code: '42501', message: /row-level security/ })
  })

  for (const table of orgTables) {
    test(`${table}: the request role reads the org of its workspace and writes nothing`, async () => {
      assert.deepEqual(await asApp(here.workspace, (tx) => distinct(tx, table, 'org_id')), [here.org])
      assert.deepEqual(await asApp(undefined, (tx) => distinct(tx, table, 'org_id')), [])
      await assert.rejects(
        asApp(here.workspace, (tx) => insertRow(tx, table, rowsOf[table](here))),
        { code: '42501', message: /permission denied/ },
      )
    })
  }

  test('orgs and workspaces: its own; keys: none at all', async () => {
    assert.deepEqual(await asApp(here.workspace, (tx) => distinct(tx, 'identity.orgs', 'id')), [here.org])
    assert.deepEqual(await asApp(here.workspace, (tx) => distinct(tx, 'identity.workspaces', 'id')), [here.workspace])
    await assert.rejects(
      asApp(here.workspace, (tx) => tx.query('select from identity.api_keys')),
      { code: '42501' },
    )
  })

  test('role and workspace end with the transaction: the next user of the connection has neither', async () => {
    const pid = 'select pg_backend_pid() as pid'
    const [first] = await asApp(here.workspace, (tx) => tx.query<{ pid: number }>(pid))
    const [next] = await opened.db.query<{ pid: number; who: string; workspace: string }>(
      `select pg_backend_pid() as pid, current_user as who, current_setting('concord.workspace_id', true) as workspace`,
    )
    assert.deepEqual(next, { pid: first?.pid, who: 'concord_engine', workspace: '' })
    assert.deepEqual(await asApp(undefined, (tx) => distinct(tx, 'concord.commands', 'workspace_id')), [])
  })

  test('a failed transaction leaves neither behind', async () => {
    await assert.rejects(
      asApp(here.workspace, (tx) => tx.query('select 1 / 0')),
      { code: '22012' },
    )
    const [next] = await opened.db.query<{ who: string; workspace: string }>(
      `select current_user as who, current_setting('concord.workspace_id', true) as workspace`,
    )
    assert.deepEqual(next, { who: 'concord_engine', workspace: '' })
  })

  test('a workspace that is no id is an error, not everything', async () => {
    await assert.rejects(
      asApp('*', (tx) => tx.query('select from concord.commands')),
      { code: '22P02' },
    )
  })

  test('neither role can log in, bypass row security or become the other way round', async () => {
    const roles = await opened.db.query(
      `select rolname, rolcanlogin, rolsuper, rolbypassrls from pg_roles where rolname in ('concord_app', 'concord_engine') order by 1`,
    )
    const plain = { rolcanlogin: false, rolsuper: false, rolbypassrls: false }
    assert.deepEqual(roles, [
      { rolname: 'concord_app', ...plain },
      { rolname: 'concord_engine', ...plain },
    ])
    const [member] = await opened.db.query(
      `select pg_has_role('concord_engine', 'concord_app', 'SET') as up, pg_has_role('concord_app', 'concord_engine', 'MEMBER') as down`,
    )
    assert.deepEqual(member, { up: true, down: false })
  })

  test('[CMD-05] many commands of a workspace have no key; another workspace may use the same key', async () => {
    for (const world of [here, here, elsewhere])
      await insertRow(opened.db, 'concord.commands', rowsOf['concord.commands'](world))
    for (const world of [here, elsewhere]) {
      const keyed = { ...rowsOf['concord.commands'](world), idempotency_key: 'shared', request_fingerprint: 'f' }
      await asApp(world.workspace, (tx) => insertRow(tx, 'concord.commands', keyed))
    }
    const [found] = await opened.db.query(
      `select count(*)::int as keyed from concord.commands where idempotency_key = 'shared'`,
    )
    assert.deepEqual(found, { keyed: 2 })
  })
})
