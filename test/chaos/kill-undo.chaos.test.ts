/** Kills server and worker while commands that succeeded are undone. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { killAtPoints } from './kill-points.ts'
import { TOGETHER } from './path-points.ts'

/** Under a minute alone on two cores; a busy machine must not fail it. */
const PATIENT_MS = 600_000

test('[7] [D1] [CMD-20] [EFF-05] [EFF-10] kill -9 before, in and after every undo of a command that succeeded: each effect is undone once', {
  timeout: PATIENT_MS,
}, async (t) => {
  const seed = process.env['CONCORD_CHAOS_SEED'] ?? 'undo'
  const report = await killAtPoints({ rounds: 1, seed, stories: ['undone'] })
  t.diagnostic(JSON.stringify(report))
  const { lost, doubled, phantom, restless, broken, missed } = report
  assert.deepEqual(
    { lost, doubled, phantom, restless, broken, missed },
    { lost: [], doubled: [], phantom: [], restless: [], broken: [], missed: [] },
  )
  const cut = Object.values(report.cut).reduce((sum, count) => sum + count, 0)
  assert.ok(cut >= 6 * TOGETHER, `the faults were met: ${cut} undos were cut`)
})
