/** A part of `npm run chaos -- scheduler`: kill -9 everywhere, and no job is lost, done twice or without a notification. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { schedulerPoints } from '#domains/scheduler'
import { killScheduler, type KillSchedulerReport } from './kill-scheduler.ts'
import { plantedKinds } from './plant-broken-rows.ts'

/** 300 in all, in parts: the runner ends a test after five minutes, and a busy machine needed longer for all of them. */
const PARTS = 6
const KILLS = 50

describe('kill -9 of a running scheduler', () => {
  const reports: KillSchedulerReport[] = []
  for (let part = 1; part <= PARTS; part++) {
    const rows =
      '[SCH-002] [SCH-003] [SCH-004] [SCH-014] [SCH-105] [SCH-109] [SCH-110] [SCH-111] [SCH-112] [SCH-113] [SCH-114] [SCH-115] [SCH-116] [SCH-118] [SCH-119] [SCH-121]'
    test(`${rows} ${KILLS} kills, part ${part} of ${PARTS}: recovery by the matrix, every job once`, async (t) => {
      const seed = `${process.env['CONCORD_CHAOS_SEED'] ?? 'house'}-${part}`
      const report = await killScheduler({ kills: KILLS, seed })
      reports.push(report)
      t.diagnostic(JSON.stringify({ seed, ...report }))
      assert.deepEqual(report.problems, [])
    })
  }

  test('every point was hit, and every kind of broken row was there to be repaired', () => {
    const sum = (pick: (report: KillSchedulerReport) => number | undefined) =>
      reports.reduce((total, report) => total + (pick(report) ?? 0), 0)
    for (const point of [...schedulerPoints, 'in the job', 'any moment']) {
      const hits = sum((report) => report.killedAt[point])
      assert.ok(hits >= 5, `${point} was hit ${hits} times`)
    }
    for (const kind of plantedKinds) {
      const times = sum((report) => report.planted[kind])
      assert.ok(times >= 8, `${kind} was planted ${times} times`)
    }
    assert.ok(sum((report) => report.kills) >= 285)
    assert.ok(sum((report) => report.acknowledged) > 500 && sum((report) => report.executed) > 1_000)
  })
})
