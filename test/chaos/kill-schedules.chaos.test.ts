/** kill -9 of workers around due times: every due time becomes exactly one command. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { killSchedules } from './kill-schedules.ts'

test('[SCD-05] [RUN-08] kill -9 of two workers around due times: each due time becomes one command, and none is left out', async (t) => {
  const seed = process.env['CONCORD_CHAOS_SEED'] ?? 'due times'
  const report = await killSchedules({ rounds: 12, seed })
  t.diagnostic(JSON.stringify({ seed, ...report }))
  assert.deepEqual([report.lost, report.doubled], [[], []])
  assert.ok(report.kills >= 12 && report.planned >= 1 && report.commands >= 12, 'the faults were met')
})
