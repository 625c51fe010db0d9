/** The wall between workspaces, and nothing that stays behind on a connection of the pool. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { aCommand, aWorkspace, by, type CommandRow, someCommands, storedCommand } from '#test/concord-rows'
import { openTestDb, type TestDb } from '#test/database'
import { scoped } from './db.ts'
import { transition } from './transition.ts'

type Session = {
  readonly role: string
  readonly workspace: string | null
  readonly read_only: string
  readonly pid: number
}
const SESSION = `select current_user as role, nullif(current_setting('concord.workspace_id', true), '') as workspace,
  current_setting('transaction_read_only') as read_only, pg_backend_pid() as pid`

describe('scoped', () => {
  let opened: TestDb
  let ours: string
  let theirs: string
  let foreign: CommandRow

  before(async () => {
    // One connection: whatever a scope leaves behind, the next user gets.
    opened = await openTestDb({ role: 'concord_engine', poolMax: 1 })
    ;[ours, theirs] = [await aWorkspace(opened.db), await aWorkspace(opened.db)]
    await aCommand(opened.db, ours)
    foreign = await aCommand(opened.db, theirs)
  })
  after(() => opened.close())

  const session = async () => (await opened.db.query<Session>(SESSION))[0]

  test('inside a scope a statement without any filter sees this workspace only', async () => {
    const seen = await scoped(opened.db, ours).read((tx) =>
      tx.query<{ workspace_id: string }>('select distinct workspace_id from concord.commands'),
    )
    assert.deepEqual(seen, [{ workspace_id: ours }])
    const everybody = await opened.db.query('select distinct workspace_id from concord.commands')
    assert.equal(everybody.length, 2)
  })

  test('inside a scope a foreign row can be neither changed nor written', async () => {
    const scope = scoped(opened.db, ours)
    const changed = await scope.transaction((tx) =>
      tx.query(`update concord.commands set error = 'x' where command_id = $1 returning 1`, [foreign.command_id]),
    )
    assert.deepEqual(changed, [])
    const moved = await scope.transaction((tx) => transition(tx, storedCommand, foreign, 'validated', by('system')))
    assert.equal(moved.ok ? 'moved' : moved.code, 'row.not_found')
    await assert.rejects(
      scope.transaction((tx) => someCommands(tx, theirs, 1)),
      { code: '42501' },
    )
  })

  test('a move within its own workspace works behind the wall', async () => {
    const mine = await aCommand(opened.db, ours)
    const moved = await scoped(opened.db, ours).transaction((tx) =>
      transition(tx, storedCommand, mine, 'validated', by('system')),
    )
    assert.ok(moved.ok)
  })

  test('reading is read-only', async () => {
    await assert.rejects(
      scoped(opened.db, ours).read((tx) => tx.query(`update concord.commands set error = 'x'`)),
      { code: '25006' },
    )
  })

  test('the next user of the connection has neither the role nor the workspace, however the scope ended', async () => {
    const clean = await session()
    assert.equal(clean?.role, 'concord_engine')
    assert.equal(clean.workspace, null)
    const inside: (Session | undefined)[] = []
    const scope = scoped(opened.db, ours)
    const endings = [
      () => scope.read(async (tx) => inside.push((await tx.query<Session>(SESSION))[0])),
      () => scope.transaction(async (tx) => inside.push((await tx.query<Session>(SESSION))[0])),
      () => scope.transaction(() => Promise.reject(new Error('stop'))).catch(() => {}),
      () => scope.transaction((tx) => tx.query('select 1/0')).catch(() => {}),
      () => scope.transaction((tx) => tx.query('this is no sql')).catch(() => {}),
    ]
    for (const end of endings) {
      await end()
      assert.deepEqual(await session(), clean)
    }
    assert.deepEqual(
      inside.map((each) => [each?.role, each?.workspace, each?.read_only, each?.pid]),
      [
        ['concord_app', ours, 'on', clean.pid],
        ['concord_app', ours, 'off', clean.pid],
      ],
    )
  })

  test('a thousand scopes of two workspaces in turn never see each other', async () => {
    for (let round = 0; round < 500; round++) {
      for (const workspace of [ours, theirs]) {
        const rows = await scoped(opened.db, workspace).read((tx) =>
          tx.query<{ workspace_id: string }>('select workspace_id from concord.commands'),
        )
        assert.ok(rows.length > 0 && rows.every((row) => row.workspace_id === workspace))
      }
    }
  })

  test('only the id of a workspace makes a scope', () => {
    for (const id of ['', `${ours}'; drop table x; --`, ours.toUpperCase(), 'null']) {
      assert.throws(() => scoped(opened.db, id), { code: 'store.scope.invalid' })
    }
  })
})
