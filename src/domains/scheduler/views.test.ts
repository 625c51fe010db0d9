/** Views match their schemas and show the values of the rows. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { aRun, aScheduler, codeOf, must, START } from '#test/scheduler/fixture'
import { finishRun } from './finish-run.ts'
import { fireDueSchedules } from './fire-schedules.ts'
import { createTemplate, templateView, toTemplateView } from './job-template.ts'
import { jobReportView, jobView, listJobs, readJob, toJobReportView, toJobView } from './job-views.ts'
import { jobNotificationView, readNotifications, toJobNotificationView } from './notifications.ts'
import { reservationView, reserve, toReservationView } from './reservations.ts'
import {
  createSchedule,
  firingView,
  readPlans,
  readStatus,
  readSchedule,
  scheduleView,
  toFiringView,
  toScheduleView,
} from './schedule.ts'

test('a job with its run: queued, running, finished', () => {
  const scheduler = aScheduler()
  const { job, runId } = aRun(scheduler, { params: { a: [1, { b: null }] } })
  const open = jobReportView.parse(toJobReportView(must(readJob(scheduler, job.job_id))))
  assert.deepEqual(
    [open.job.status, open.run?.status, open.run?.params],
    ['running', 'running', { a: [1, { b: null }] }],
  )
  assert.deepEqual(
    [open.job.started_at, open.job.job_id],
    [new Date(START).toISOString(), `job_${job.job_id.replaceAll('-', '')}`],
  )
  must(finishRun(scheduler, runId, { outcome: 'completed', artifacts: ['x'] }))
  const done = jobReportView.parse(toJobReportView(must(readJob(scheduler, job.job_id))))
  assert.deepEqual(
    [done.job.status, done.job.outcome, done.run?.status, done.run?.artifacts],
    ['finished', 'COMPLETED', 'COMPLETED', ['x']],
  )
})

test('[SCH-065] the list shows the status of a job in one field, not the RUNNING that stays in the file', () => {
  const scheduler = aScheduler()
  const { job, runId } = aRun(scheduler)
  must(finishRun(scheduler, runId, { outcome: 'failed', error: 'x' }))
  const [listed] = must(listJobs(scheduler, { status: 'failed' }))
  assert.ok(listed)
  assert.equal(listed.status, 'RUNNING')
  const view = jobView.parse(toJobView(listed))
  assert.deepEqual(
    [view.job_id.slice(4), view.status, view.outcome],
    [job.job_id.replaceAll('-', ''), 'finished', 'FAILED'],
  )
  assert.deepEqual(must(listJobs(scheduler, { status: 'completed' })), [])
})

test('templates, schedules, firings, reservations and notifications', () => {
  const scheduler = aScheduler()
  const template = must(createTemplate(scheduler, { name: 't', job_type: 'story', params_schema: { type: 'object' } }))
  const { schedule_id } = must(
    createSchedule(scheduler, { template_id: template.template_id, name: 's', cron_expression: '0 * * * *' }),
  )
  scheduler.clock.by(3_600_000)
  must(fireDueSchedules(scheduler))
  must(reserve(scheduler, { reserved_by: 'x' }))
  const plans = must(readPlans(scheduler))
  assert.deepEqual(templateView.parse(toTemplateView(plans.templates[0] as never)).params_schema, { type: 'object' })
  const schedule = scheduleView.parse(toScheduleView(plans.schedules[0] as never))
  assert.deepEqual([schedule.enabled, schedule.next_trigger_at], [true, new Date(START + 7_200_000).toISOString()])
  assert.equal(
    reservationView.parse(toReservationView(must(readStatus(scheduler)).reservation as never)).status,
    'ACTIVE',
  )
  assert.deepEqual(
    plans.jobTypes.map((type) => type.job_type),
    ['research', 'story'],
  )
  const report = must(readSchedule(scheduler, schedule_id))
  assert.equal(firingView.parse(toFiringView(report.firings[0] as never)).outcome, 'fired')
  assert.equal(codeOf(readSchedule(scheduler, 'nobody')), 'scheduler.schedule.not_found')
  scheduler.clock.by(300_000)
  must(reserve(scheduler, { reserved_by: 'y' }))
  const [told] = must(readNotifications(scheduler))
  assert.equal(jobNotificationView.parse(toJobNotificationView(told as never)).kind, 'reservation_expired')
})
