/** A part of `npm run chaos -- scheduler-calls`: single system calls fail or kill, and the file stays consistent. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { faultScheduler, type FaultReport, whyNoStrace } from './fault-scheduler.ts'

const skip = whyNoStrace() ?? false
/** 250 in all, in parts, as in `kill-scheduler.chaos.test.ts`. */
const PARTS = 5
const CASES = 50

describe('system calls that fail or kill, found and injected by strace', () => {
  const reports: FaultReport[] = []
  for (let part = 1; part <= PARTS; part++) {
    const rows = '[SCH-002] [SCH-004] [SCH-104] [SCH-105] [SCH-115] [SCH-118] [SCH-119]'
    const title = `${rows} ${CASES} cases, part ${part} of ${PARTS}: no violation, and the next start needs no help`
    test(title, { skip }, async (t) => {
      const seed = `${process.env['CONCORD_CHAOS_SEED'] ?? 'house'}-${part}`
      const report = await faultScheduler({ cases: CASES, seed })
      reports.push(report)
      t.diagnostic(JSON.stringify({ seed, ...report }))
      assert.deepEqual(report.problems, [])
      assert.equal(report.cases, CASES)
    })
  }

  test('the faults came', { skip }, () => {
    const sum = (pick: (report: FaultReport) => number) => reports.reduce((total, report) => total + pick(report), 0)
    const [killed, failed, missed] = [
      sum((report) => report.killed),
      sum((report) => report.failed),
      sum((report) => report.missed),
    ]
    assert.ok(killed >= 50 && failed >= 100, `${killed} killed, ${failed} failed`)
    assert.ok(missed <= 60, `${missed} faults did not come`)
  })
})
