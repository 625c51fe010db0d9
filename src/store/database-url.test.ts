/** Addresses of servers: what is understood, what is refused, and that no password reaches a message. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { maskDatabaseUrl, parseDatabaseUrl } from './database-url.ts'

test('an address is taken apart', () => {
  const parsed = parseDatabaseUrl(' postgres://ann:s%40cret@db.example:6543/my%20data?sslmode=require\n')
  assert.ok(parsed.ok)
  assert.deepEqual(parsed.value, {
    url: 'postgres://ann:s%40cret@db.example:6543/my%20data?sslmode=require',
    masked: 'postgres://ann:***@db.example:6543/my%20data?sslmode=require',
    host: 'db.example',
    port: 6543,
    database: 'my data',
    user: 'ann',
  })
})

test('the port is optional, and a socket folder may replace the host', () => {
  const plain = parseDatabaseUrl('postgresql://db/x')
  assert.ok(plain.ok)
  assert.deepEqual([plain.value.port, plain.value.user], [5432, undefined])
  for (const socket of ['postgres:///x?host=/run/pg', 'postgres://%2Frun%2Fpg/x']) {
    const parsed = parseDatabaseUrl(socket)
    assert.ok(parsed.ok)
    assert.equal(parsed.value.host, '/run/pg')
  }
})

const broken = {
  empty: ['', '  '],
  'not a URL': ['hunter2', 'postgres://ann:hunter2@db:99999/x', 'postgres://ann:hunter2/@db/x', 'ann:hunter2@db/x y'],
  scheme: ['mysql://ann:hunter2@db/x', 'https://ann:hunter2@db/x'],
  database: ['postgres://ann:hunter2@db', 'postgres://ann:hunter2@db/', 'postgres://ann:hunter2@db/a/b'],
  'port 0': ['postgres://ann:hunter2@db:0/x'],
  host: ['postgres:///x?password=hunter2'],
  '%': ['postgres://ann:hunter2%zz@db/x'],
}

for (const [what, texts] of Object.entries(broken)) {
  for (const text of texts) {
    test(`refused for its ${what}: ${text.replace('hunter2', '…')}`, () => {
      const parsed = parseDatabaseUrl(text)
      assert.ok(!parsed.ok)
      assert.deepEqual([parsed.code, parsed.path], ['store.url.invalid', 'DATABASE_URL'])
      assert.doesNotMatch(JSON.stringify(parsed), /hunter2/)
    })
  }
}

test('no password is ever shown, whatever it is made of', () => {
  const password = fc.string({ minLength: 4 }).map((text) => `Q${text}Q`)
  fc.assert(
    fc.property(password, fc.boolean(), (secret, encoded) => {
      const shown = encoded ? encodeURIComponent(secret.toWellFormed()) : secret
      const urls = [`postgres://ann:${shown}@db/x`, `postgres://ann:${shown}@db`, `postgres://db/x?password=${shown}`]
      for (const url of urls) {
        const parsed = parseDatabaseUrl(url)
        const message = parsed.ok ? parsed.value.masked : `${parsed.reason}${parsed.hint}`
        assert.ok(!message.includes(shown) && !maskDatabaseUrl(url).includes(shown), message)
      }
    }),
  )
})
