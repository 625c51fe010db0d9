/**
 * A report every night at half past two in Berlin. The clock is set to the night when daylight saving begins, on which half past
 * two does not exist: the report is still created, once.
 *
 *   npm run example examples/scheduler/nightly-report.ts
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  createSchedule,
  createTemplate,
  nextOccurrences,
  readSchedule,
  toTemplateView,
} from '@concordhq/concord/scheduler'
import { openExample } from './open-example.ts'

const script = `const { month } = JSON.parse(require('node:fs').readFileSync(0, 'utf8'))
require('node:fs').appendFileSync('report.csv', 'revenue,' + month + '\\n')
require('node:fs').appendFileSync(process.env.JOB_ARTIFACTS, 'report.csv\\n')`
const report = { job_type: 'report', runner: { command: process.execPath, args: ['-e', script], timeout: '1m' } }

let nowMs = Date.UTC(2026, 2, 28, 12)
using example = openExample([report], () => new Date(nowMs))
const { scheduler, folder } = example

const template = createTemplate(scheduler, { name: 'report', job_type: 'report', params: { month: '2026-03' } })
assert.ok(template.ok)
const schedule = createSchedule(scheduler, {
  template_id: toTemplateView(template.value).template_id,
  name: 'nightly',
  cron_expression: '30 2 * * *',
  timezone: 'Europe/Berlin',
})
assert.ok(schedule.ok)

await example.run()
assert.throws(() => readFileSync(join(folder, 'report.csv')), 'nothing is made before its time')

const next = nextOccurrences('30 2 * * *', 'Europe/Berlin', new Date(nowMs), 2)
assert.ok(next.ok)
const [due] = next.value
assert.ok(due)
nowMs = due.getTime() + 1_000
await example.run()
await example.run()
assert.equal(readFileSync(join(folder, 'report.csv'), 'utf8'), 'revenue,2026-03\n')

const fired = readSchedule(scheduler, schedule.value.schedule_id)
assert.ok(fired.ok)
assert.deepEqual(
  fired.value.firings.map(({ outcome, due_at }) => [outcome, due_at]),
  [['fired', due.getTime()]],
)
console.log(`the report of ${due.toISOString()} was created once`)
