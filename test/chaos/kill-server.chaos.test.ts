/** A part of `npm run chaos`: kill -9 at seeded moments, and no acknowledged write is lost. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { killServer } from './kill-server.ts'

test('kill -9 while starting, migrating and answering: every next start works, nothing acknowledged is lost', async (t) => {
  const seed = process.env['CONCORD_CHAOS_SEED'] ?? 'house'
  const report = await killServer({ rounds: 24, seed })
  t.diagnostic(JSON.stringify({ seed, ...report }))
  assert.deepEqual([report.lost, report.stuck], [[], []])
  assert.ok(report.acknowledged > 0 && report.killedWhileStarting > 0 && report.killedWhileAnswering > 0)
})
