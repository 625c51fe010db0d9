/** Two workers on one database, one killed and one frozen: nothing is lost, and the late writes of the frozen one are refused. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { shareWork } from './share-work.ts'

/** About a minute alone on two cores; a busy machine must not fail it. */
const PATIENT_MS = 900_000

test('[RUN-08] two workers share the load; one may be killed or frozen at any time, and what the thawed one writes late is refused', {
  timeout: PATIENT_MS,
}, async (t) => {
  const seed = process.env['CONCORD_CHAOS_SEED'] ?? 'workers'
  const report = await shareWork({ rounds: 1, seed })
  t.diagnostic(JSON.stringify({ replay: `npm run chaos -- workers --rounds 1 --seed ${seed}`, ...report }))
  const { lost, doubled, phantom, restless, broken, stale } = report
  assert.deepEqual(
    { lost, doubled, phantom, restless, broken, stale },
    { lost: [], doubled: [], phantom: [], restless: [], broken: [], stale: [] },
  )
  assert.ok(
    report.shares.every((turns) => turns > 0),
    `both gave turns: ${report.shares.join(' and ')}`,
  )
  assert.ok(report.takenOver > 0, 'the frozen one had calls under way')
})
