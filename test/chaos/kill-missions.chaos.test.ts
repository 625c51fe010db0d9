/** kill -9 of the workers and the server of missions, and a freeze: no effect twice or lost, no attempt started twice, the end of the model. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { killMissions, missionPoints } from './kill-missions.ts'

/** Each kill is a start of a process; a busy machine must not fail it. */
const PATIENT_MS = 1_800_000

test('[MIS-003] [MIS-011] kill -9 at every point of a mission, at random moments, and a freeze: no effect twice or lost, no attempt started twice, the end of the model', {
  timeout: PATIENT_MS,
}, async (t) => {
  const seed = process.env['CONCORD_CHAOS_SEED'] ?? 'missions'
  const points = [missionPoints.slice(0, 3), missionPoints.slice(3)]
  const report = await killMissions({ seed, missions: 12, tasksMax: 10, inFlight: 10, points, together: 1, kills: 2 })
  t.diagnostic(`replay: npm run chaos -- missions --rounds 16 --seed ${seed}`)
  t.diagnostic(JSON.stringify({ seed, ...report }))
  const { lost, doubled, phantom, differing, restless, stale, broken } = report
  assert.deepEqual(
    { lost, doubled, phantom, differing, restless, stale, broken },
    { lost: [], doubled: [], phantom: [], differing: [], restless: [], stale: [], broken: [] },
  )
  assert.ok(
    report.payments > 0 && report.retried > 0 && report.forks > 0,
    'tasks paid, some ran again, and missions were forked',
  )
})
