/** The outbox: at-least-once delivery with a stable id, backoff and a last attempt; and when the loop must wake. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { claimJobs } from './claim-next.ts'
import { createSchedule } from './schedule.ts'
import { createTemplate } from './job-template.ts'
import { claimNotifications, recordDelivery, recordDeliveryFailure } from './notifications.ts'
import { finishRun } from './finish-run.ts'
import { nextWake } from './run-scheduler.ts'
import { reserve } from './reservations.ts'
import { aFile, aRun, aScheduler, codeOf, must, rowsOf, START } from '#test/scheduler/fixture'
import { submitJob } from './submit-job.ts'

function withOne() {
  const scheduler = aScheduler()
  must(finishRun(scheduler, aRun(scheduler).runId, { outcome: 'completed' }))
  return scheduler
}

test('[SCH-116] a notification is claimed again with the same id when no outcome is reported', () => {
  const scheduler = withOne()
  const [first] = must(claimNotifications(scheduler))
  assert.deepEqual(must(claimNotifications(scheduler)), [])
  scheduler.clock.by(60_000)
  const [again] = must(claimNotifications(scheduler))
  assert.deepEqual(
    [again?.notification_id, again?.payload, again?.attempts],
    [first?.notification_id, first?.payload, 2],
  )
  must(recordDelivery(scheduler, again?.notification_id ?? ''))
  scheduler.clock.by(1e9)
  assert.deepEqual(must(claimNotifications(scheduler)), [])
  // Reporting the same delivery twice is accepted.
  must(recordDelivery(scheduler, again?.notification_id ?? ''))
  assert.equal(codeOf(recordDelivery(scheduler, 'nobody')), 'scheduler.notification.not_found')
})

test('[SCH-116] a failed delivery waits longer each time, and is DEAD after twenty attempts', () => {
  const scheduler = withOne()
  const waits: number[] = []
  for (;;) {
    const [row] = must(claimNotifications(scheduler))
    if (!row) break
    const said = must(recordDeliveryFailure(scheduler, row.notification_id, 'HTTP 500'))
    if (said === 'dead') break
    const next = Number(rowsOf(scheduler, 'notifications')[0]?.['next_attempt_at'])
    waits.push(next - scheduler.clock.ms)
    scheduler.clock.ms = next
  }
  assert.equal(waits.length, 19)
  assert.deepEqual(waits.slice(0, 3), [900, 1_800, 3_600])
  assert.equal(Math.max(...waits), 540_000)
  const [row] = rowsOf(scheduler, 'notifications')
  assert.deepEqual([row?.['status'], row?.['last_error'], row?.['attempts']], ['DEAD', 'HTTP 500', 20])
  assert.equal(
    codeOf(recordDeliveryFailure(scheduler, String(row?.['notification_id']), 'x')),
    'scheduler.notification.not_found',
  )
})

test('[SCH-116] notifications go out in the order they were written, and only by the owner', () => {
  const file = aFile()
  const scheduler = aScheduler({ file })
  const ids = [1, 2, 3].map(() => {
    const { runId } = aRun(scheduler)
    must(finishRun(scheduler, runId, { outcome: 'completed' }))
    return `run_completed:${runId}`
  })
  assert.deepEqual(
    must(claimNotifications(scheduler, 2)).map((row) => row.notification_id),
    ids.slice(0, 2),
  )
  const guest = aScheduler({ file, role: 'guest' })
  assert.equal(codeOf(claimNotifications(guest)), 'scheduler.not_owner')
  guest.close()
  scheduler.close()
})

test('the next wake is the earliest due time', () => {
  const scheduler = aScheduler()
  assert.deepEqual(must(nextWake(scheduler)), { at: null, reasons: [] })
  const template_id = must(createTemplate(scheduler, { name: 't', job_type: 'story' })).template_id
  must(createSchedule(scheduler, { template_id, name: 's', cron_expression: '0 * * * *' }))
  assert.deepEqual(must(nextWake(scheduler)), { at: new Date(START + 3_600_000), reasons: ['schedule'] })
  must(submitJob(scheduler, { job_type: 'story', not_before: new Date(START + 400_000).toISOString() }))
  assert.deepEqual(must(nextWake(scheduler)), { at: new Date(START + 400_000), reasons: ['delayed'] })
  must(reserve(scheduler, { reserved_by: 'x' }))
  assert.deepEqual(must(nextWake(scheduler)), { at: new Date(START + 300_000), reasons: ['reservation'] })
})

test('the version of the file changes with every write, of this process and of others, and with nothing else', () => {
  const file = aFile()
  const [one, two] = [aScheduler({ file }), aScheduler({ file, role: 'guest' })]
  const before = [one.db.version(), two.db.version()]
  must(claimJobs(one))
  must(nextWake(two))
  assert.deepEqual([one.db.version(), two.db.version()], before)
  must(submitJob(two, { job_type: 'story' }))
  assert.notEqual(one.db.version(), before[0])
  assert.notEqual(two.db.version(), before[1])
  two.close()
  one.close()
})
