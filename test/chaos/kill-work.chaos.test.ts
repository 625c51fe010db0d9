/** kill -9 of server and worker with twenty payments in flight: none is lost, doubled or unrequested. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { killWork } from './kill-work.ts'

test('[RUN-08] kill -9 of server and worker while commands pay: each acknowledged command pays exactly once', async (t) => {
  const seed = process.env['CONCORD_CHAOS_SEED'] ?? 'payments'
  const report = await killWork({ kills: 8, seed })
  t.diagnostic(JSON.stringify({ seed, ...report }))
  assert.deepEqual([report.lost, report.doubled, report.phantom, report.unfinished], [[], [], [], []])
  assert.ok(report.acknowledged > 40 && report.providerCalls > report.acknowledged, 'the faults were met')
})
