/** Whether one more process fits into a server. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { freshDatabase } from '#test/database'
import { connectionsOf, readConnectionRoom, sayCrowded } from './connection-room.ts'

test('a server says how many connections there are and how many are taken', async (t) => {
  const { db } = await freshDatabase(t, { migrated: false })
  const before = await readConnectionRoom(db)
  assert.ok(before.used >= 1 && before.used < before.usable)
  const [row] = await db.query<{ max: number }>(`select current_setting('max_connections')::int as max`)
  assert.ok(before.usable < (row?.max ?? 0), 'some are kept for the superuser')
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
