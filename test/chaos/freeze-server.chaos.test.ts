/** A server is frozen in its own turns: others finish its work, and its late writes are refused. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { freezeServer } from './freeze-server.ts'

/** About fifteen seconds alone on two cores; a busy machine must not fail it. */
const PATIENT_MS = 900_000

test('[RUN-08] [CMD-20] a server frozen in turns that no runtime knows of: a worker takes them over, and what the thawed one writes late is refused', {
  timeout: PATIENT_MS,
}, async (t) => {
  const seed = process.env['CONCORD_CHAOS_SEED'] ?? 'in_process'
  const report = await freezeServer({ rounds: 1, seed })
  t.diagnostic(JSON.stringify({ replay: `npm run chaos -- freeze --rounds 1 --seed ${seed}`, ...report }))
  const { lost, doubled, phantom, restless, broken, stale } = report
  assert.deepEqual(
    { lost, doubled, phantom, restless, broken, stale },
    { lost: [], doubled: [], phantom: [], restless: [], broken: [], stale: [] },
  )
  assert.ok(report.inProcess > 0, `of ${report.held} held commands ${report.inProcess} had begun in its process`)
})
