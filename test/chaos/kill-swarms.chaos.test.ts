/** kill -9 of processes with swarms, at named points and at random moments: no effect twice, no answer lost, the same end. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { killSwarms, swarmPoints as points } from './kill-swarms.ts'

/** Each kill is a start of a process; a busy machine must not fail it. */
const PATIENT_MS = 1_800_000

test('[SWM-33] [SWM-18] kill -9 at every point of a swarm, eight at a time, and at random moments: no effect twice, no answer lost, the same end', {
  timeout: PATIENT_MS,
}, async (t) => {
  const seed = process.env['CONCORD_CHAOS_SEED'] ?? 'swarms'
  const report = await killSwarms({ seed, kills: 6, points })
  t.diagnostic(`replay: npm run chaos -- swarms --rounds ${report.kills - points.length} --seed ${seed}`)
  t.diagnostic(JSON.stringify({ seed, ...report }))
  const { repeated, lost, differing, alive, broken } = report
  assert.deepEqual(
    { repeated, lost, differing, alive, broken },
    { repeated: [], lost: [], differing: [], alive: [], broken: [] },
  )
  assert.ok(report.payments > 0 && report.refunds > 0, 'agents paid, and losers were undone')
})
