/** A part of `npm run chaos -- scheduler` in every test run: kill -9 everywhere, and nothing is lost, done twice or untold. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { schedulerPoints } from '#domains/scheduler'
import { killScheduler } from './kill-scheduler.ts'
import { plantedKinds } from './plant-broken-rows.ts'

test('[SCH-002] [SCH-003] [SCH-004] [SCH-014] [SCH-105] [SCH-109] [SCH-110] [SCH-111] [SCH-112] [SCH-113] [SCH-114] [SCH-115] [SCH-116] [SCH-118] [SCH-119] [SCH-121] 300 kills of a running scheduler: recovery by the matrix, every job once', async (t) => {
  const seed = process.env['CONCORD_CHAOS_SEED'] ?? 'house'
  const report = await killScheduler({ kills: 300, seed })
  t.diagnostic(JSON.stringify({ seed, ...report }))
  assert.deepEqual(report.problems, [])
  // 31 targets, each 9 or 10 times; where a life happens not to pass, it is not killed.
  for (const point of [...schedulerPoints, 'in the job', 'any moment']) {
    assert.ok((report.killedAt[point] ?? 0) >= 5, `${point} was hit ${report.killedAt[point] ?? 0} times`)
  }
  assert.ok(report.kills >= 285, `${report.kills} kills`)
  for (const kind of plantedKinds) {
    assert.ok((report.planted[kind] ?? 0) >= 8, `${kind} was planted ${report.planted[kind] ?? 0} times`)
  }
  assert.ok(report.acknowledged > 500 && report.executed > 1_000)
})
