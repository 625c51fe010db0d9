/** Whether one more process fits into a server. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { freshDatabase } from '#test/database'
import { openDb } from './db.ts'
import { connectionsOf, readConnectionRoom, sayCrowded } from './connection-room.ts'

test('a server says how many connections there are and how many are taken', async (t) => {
  const { db } = await freshDatabase(t, { migrated: false })
  const before = await readConnectionRoom(db)
  assert.ok(before.used >= 1 && before.used < before.usable)
  const [row] = await db.query<{ max: number }>(`select current_setting('max_connections')::int as max`)
  assert.ok(before.usable < (row?.max ?? 0), 'some are kept for the superuser')
})

test('the role of the service, which may not look into the sessions of others, counts them all the same', async (t) => {
  const { url } = await freshDatabase(t)
  const db = openDb({ url, role: 'concord_engine', poolMax: 1 })
  const held = await Promise.all(Array.from({ length: 5 }, () => db.connect()))
  const { used } = await readConnectionRoom(db)
  for (const client of held) await client.end()
  await db.close()
  assert.ok(used >= 6, `${used} in use`)
})

test('what is left must be enough for the pool of one process and what it has beside it', () => {
  assert.equal(connectionsOf(10), 30)
  assert.equal(sayCrowded({ usable: 97, used: 67 }, 10), undefined)
  assert.equal(
    sayCrowded({ usable: 97, used: 68 }, 10),
    '29 of 97 connections of the database are free, and a server or worker takes up to 30',
  )
  assert.match(sayCrowded({ usable: 97, used: 99 }, 10) ?? '', /^0 of 97/)
})
