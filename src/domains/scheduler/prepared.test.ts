/** Prepared statements bind values by name and return rows by column name, whatever the SQL looks like. */
import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { numberParams, Prepared } from './database.ts'
import { lookBeforeClaim } from './claim-next.ts'
import { aRawFile } from '#test/scheduler/raw-file'

test('a repeated name has one number, and a dollar sign in a string literal stays', () => {
  assert.deepEqual(numberParams(`select $b, '$b it''s $a', $a, $b`), {
    numbered: `select ?1, '$b it''s $a', ?2, ?1`,
    names: ['b', 'a'],
  })
})

test('returns one row, many rows or the number of changes, and refuses a missing value', () => {
  const connection = new DatabaseSync(':memory:')
  connection.exec('create table pairs (name text, size integer)')
  const insert = new Prepared(connection, 'insert into pairs values ($name, $size)')
  assert.equal(insert.run({ size: 2, name: 'b' }), 1)
  assert.equal(insert.run({ name: 'a', size: null }), 1)
  assert.throws(() => insert.run({ name: 'c' }), /cannot be bound/)
  const all = new Prepared(connection, 'select name, size from pairs order by name')
  assert.deepEqual(all.all(undefined), [
    { name: 'a', size: null },
    { name: 'b', size: 2 },
  ])
  const one = new Prepared(connection, 'select size from pairs where name = $name')
  assert.deepEqual(one.get({ name: 'b' }), { size: 2 })
  assert.equal(one.get({ name: 'z' }), undefined)
})

test('[SCH-032] a claim reads only jobs in flight and the next delayed job', () => {
  const { db } = aRawFile()
  const plan = db.prepare(`explain query plan ${lookBeforeClaim.text}`).all()
  const steps = plan.map((row) => String(row['detail'])).join('; ')
  assert.match(steps, /jobs_in_flight_ix/)
  assert.match(steps, /jobs_delayed_ix/)
  assert.doesNotMatch(steps, /jobs_held_ix|SCAN jobs$/)
})
