/** Kills server and worker at every failpoint of the path of a command. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { killAtPoints } from './kill-points.ts'
import { TOGETHER } from './path-points.ts'

/** About a minute alone on two cores; a busy machine must not fail it. */
const PATIENT_MS = 900_000

test('[CMD-20] [RUN-08] [EFF-06] [EFF-25] [CAN-06] [EVT-11] [EVT-12] kill -9 at every named point, eight commands at a time: none lost, none doubled, none that nobody asked for, all at rest', {
  timeout: PATIENT_MS,
}, async (t) => {
  const seed = process.env['CONCORD_CHAOS_SEED'] ?? 'points'
  const report = await killAtPoints({ rounds: 1, seed })
  t.diagnostic(JSON.stringify({ replay: `npm run chaos -- points --rounds 1 --seed ${seed}`, ...report }))
  const { lost, doubled, phantom, restless, broken, missed } = report
  assert.deepEqual(
    { lost, doubled, phantom, restless, broken, missed },
    { lost: [], doubled: [], phantom: [], restless: [], broken: [], missed: [] },
  )
  const cut = Object.values(report.cut).reduce((sum, count) => sum + count, 0)
  assert.ok(cut > 60 * TOGETHER && report.providerCalls > report.paid, `the faults were met: ${cut} commands were cut`)
})
