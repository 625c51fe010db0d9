/** Opening any server by its address: safe ones open, the others answer with a refusal that hides the password. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { freshDatabase } from '#test/database'
import { openCheckedDb } from './checked-db.ts'

test('a server is asked for its settings as this login and database have them', async (t) => {
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

test('a wrong password, a missing database, a silent port and an unknown host each say so', async (t) => {
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
