/** The short form of `npm run chaos -- migration`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { killMigration } from './kill-migration.ts'

test('a history is migrated after a kill -9 of the migration, down and up again, and no field of an event changes', async (t) => {
  const report = await killMigration({ events: 20_000 })
  t.diagnostic(JSON.stringify({ replay: 'npm run chaos -- migration --rounds 20000', ...report }))
  assert.deepEqual(report.differences, [])
  assert.ok(report.events >= 20_000)
})
