/** A part of `npm run chaos -- scheduler-power`, where there are loop devices and root: no promise is lost. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cutPower } from './cut-power.ts'
import { whyNoPowerCut } from './loop-disk.ts'

const skip = whyNoPowerCut() ?? false
const seed = process.env['CONCORD_CHAOS_SEED'] ?? 'house'

test('[SCH-002] [SCH-003] [SCH-004] 12 power cuts under a working scheduler: nothing acknowledged is lost', {
  skip,
}, async (t) => {
  const report = await cutPower({ cuts: 12, seed })
  t.diagnostic(JSON.stringify({ seed, ...report }))
  assert.deepEqual([report.lost, report.problems], [[], []])
  assert.ok(report.acknowledged >= 12 * 5 && report.finished > 0)
})

test('the same with synchronous = normal, which the scheduler never uses, loses something: the cut is a real one', {
  skip,
}, async (t) => {
  const report = await cutPower({ cuts: 3, seed, synchronous: 'normal' })
  t.diagnostic(JSON.stringify({ seed, acknowledged: report.acknowledged, lost: report.lost.length }))
  assert.ok(report.lost.length > 0)
})
