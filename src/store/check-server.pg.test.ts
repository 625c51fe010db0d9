/** Opening a server by its URL: safe ones open, the others are refused without showing the password. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { freshDatabase } from '#test/database'
import { openCheckedDb, readConnectionRoom, sayCrowded } from './check-server.ts'
import { openDb } from './db.ts'

test('the check reads the settings of this login and database', async (t) => {
  const { db, url, name } = await freshDatabase(t, { migrated: false })
  const allowed = await openCheckedDb({ url }, { unsafeForTests: true })
  assert.ok(allowed.ok)
  await allowed.value.close()
  await db.query(`alter database ${name} set synchronous_commit = off`)
  const refused = await openCheckedDb({ url })
  assert.ok(!refused.ok)
  assert.equal(refused.code, 'store.server.unsafe_settings')
  assert.match(JSON.stringify(refused.facts), /synchronous_commit=off/)
  await db.query(`alter database ${name} set default_transaction_read_only = on`)
  const readOnly = await openCheckedDb({ url }, { unsafeForTests: true })
  assert.ok(!readOnly.ok)
  assert.equal(readOnly.code, 'store.server.read_only')
})

test('a wrong password, a missing database, a silent port and an unknown host have different refusals', async (t) => {
  const { url } = await freshDatabase(t, { migrated: false })
  const change = (edit: (url: URL) => void) => {
    const changed = new URL(url)
    edit(changed)
    return changed.href
  }
  const cases: [string, RegExp, string][] = [
    [change((to) => (to.password = 'hunter2')), /refused the login/, 'store.server.login_refused'],
    [change((to) => (to.pathname = '/no_such_database')), /no such database/, 'store.server.login_refused'],
    [change((to) => (to.port = '1')), /does not answer/, 'store.server.unreachable'],
    [change((to) => (to.hostname = 'no-such-host.invalid')), /has no address/, 'store.server.unreachable'],
    ['postgres://ann:hunter2@db', /names no database/, 'store.url.invalid'],
  ]
  for (const [address, reason, code] of cases) {
    const answer = await openCheckedDb({ url: address })
    assert.ok(!answer.ok)
    assert.equal(answer.code, code)
    assert.match(answer.reason, reason)
    assert.ok(!JSON.stringify(answer).includes(decodeURIComponent(new URL(address).password)))
  }
})

test('a server reports how many connections exist and how many are used', async (t) => {
  const { db } = await freshDatabase(t, { migrated: false })
  const before = await readConnectionRoom(db)
  assert.ok(before.used >= 1 && before.used < before.usable)
  const [row] = await db.query<{ max: number }>(`select current_setting('max_connections')::int as max`)
  assert.ok(before.usable < (row?.max ?? 0), 'some are kept for the superuser')
})

test('the role of the service counts the sessions of other users, although it may not read them', async (t) => {
  const { url } = await freshDatabase(t)
  const db = openDb({ url, role: 'concord_engine', poolMax: 1 })
  const held = await Promise.all(Array.from({ length: 5 }, () => db.connect()))
  const { used } = await readConnectionRoom(db)
  for (const client of held) await client.end()
  await db.close()
  assert.ok(used >= 6, `${used} in use`)
})

test('the free connections must suffice for the pool of one process and its other connections', () => {
  assert.equal(sayCrowded({ usable: 97, used: 67 }, 10), undefined)
  assert.equal(
    sayCrowded({ usable: 97, used: 68 }, 10),
    '29 of 97 connections of the database are free, and a server or worker takes up to 30.',
  )
  assert.match(sayCrowded({ usable: 97, used: 99 }, 10) ?? '', /^0 of 97/)
})
