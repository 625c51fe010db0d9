/** Logs and notifications are pruned by age and size; rows of jobs and runs never are. */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { aFolder, aRun, aScheduler, codeOf, countOf, must, rowsOf, type TestScheduler } from '#test/scheduler/fixture'
import { aRealScheduler, aShellType, runUntilIdle, wait } from '#test/scheduler/run-until-idle'
import { finishRun } from './finish-run.ts'
import { claimNotifications, recordDelivery } from './notifications.ts'
import { pruneRuns, readLog } from './run-files.ts'
import { runLogPath } from './run-log.ts'
import { recordLogPath } from './run-repository.ts'
import { submitJob } from './submit-job.ts'

const DAY_MS = 86_400_000

function aLoggedRun(scheduler: TestScheduler, folder: string, bytes: number, isEnded = true): string {
  const { runId } = aRun(scheduler)
  const path = runLogPath(folder, runId)
  mkdirSync(folder, { recursive: true })
  writeFileSync(path, 'x'.repeat(bytes))
  must(recordLogPath(scheduler, runId, path))
  if (isEnded) must(finishRun(scheduler, runId, { outcome: 'completed' }))
  scheduler.clock.by(1_000)
  return path
}

test('[SCH-007] logs of ended runs are pruned by age; rows, paths and logs of open runs stay', async () => {
  const scheduler = aScheduler({ settings: { keepMs: 30 * DAY_MS, workers: 2 } })
  const folder = join(aFolder(), 'runs')
  const old = aLoggedRun(scheduler, folder, 10)
  const made = old.replace('.log', '.artifacts')
  mkdirSync(join(made, 'by the job'), { recursive: true })
  const open = aLoggedRun(scheduler, folder, 10, false)
  writeFileSync(join(folder, 'notes.txt'), 'not ours')
  writeFileSync(join(folder, '00000000-0000-7000-8000-ffffffffffff.log'), 'no run is known for it')
  scheduler.clock.by(31 * DAY_MS)
  const young = aLoggedRun(scheduler, folder, 10)
  const before = rowsOf(scheduler, 'job_runs')
  assert.equal(must(await pruneRuns(scheduler, folder)).logs, 2)
  assert.deepEqual([old, made, open, young].map(existsSync), [false, false, true, true])
  assert.equal(readdirSync(folder).length, 4)
  assert.deepEqual(rowsOf(scheduler, 'job_runs'), before)
  const jobId = String(before[0]?.['job_id'])
  const read = readLog(scheduler, jobId, { follow: false, wait, stop: new AbortController().signal })
  assert.equal(codeOf(read), 'scheduler.log.not_found')
  assert.match(read.ok ? '' : read.reason, /no longer exists/)
})

test('logs above the total size are pruned, oldest first', async () => {
  const scheduler = aScheduler({ settings: { logBytesMax: 250 } })
  const folder = aFolder()
  const paths = [100, 100, 100].map((bytes) => aLoggedRun(scheduler, folder, bytes))
  assert.equal(must(await pruneRuns(scheduler, folder)).logs, 1)
  assert.deepEqual(paths.map(existsSync), [false, true, true])
  assert.equal(must(await pruneRuns(scheduler, folder)).logs, 0)
})

test('[SCH-116] old ended notifications are pruned; pending ones stay', async () => {
  const scheduler = aScheduler({ settings: { keepMs: DAY_MS } })
  for (const outcome of ['completed', 'completed', 'completed'] as const) {
    must(finishRun(scheduler, aRun(scheduler).runId, { outcome }))
  }
  const [first, second] = must(claimNotifications(scheduler))
  must(recordDelivery(scheduler, first?.notification_id ?? ''))
  scheduler.clock.by(2 * DAY_MS)
  must(recordDelivery(scheduler, second?.notification_id ?? ''))
  assert.equal(must(await pruneRuns(scheduler, aFolder())).notifications, 1)
  assert.equal(countOf(scheduler, 'notifications'), 2)
  assert.equal(countOf(scheduler, 'job_runs'), 3)
})

test('the loop prunes even when it has no other work', async () => {
  const scheduler = aRealScheduler([aShellType('echo hello')])
  must(submitJob(scheduler, { job_type: 'story' }))
  await runUntilIdle(scheduler)
  const later = { ...scheduler, deps: { ...scheduler.deps, now: () => new Date(Date.now() + 60 * DAY_MS) } }
  const events = await runUntilIdle(later)
  const pruned = events.find((event) => event.kind === 'pruned')
  assert.ok(pruned?.kind === 'pruned' && pruned.pruned.logs === 1 && pruned.pruned.notifications === 1)
  assert.equal(countOf(scheduler, 'job_runs'), 1)
  scheduler.close()
})

test('invalid limits for age and size are refused', () => {
  for (const settings of [{ keepMs: 0 }, { keepMs: 1.5 }, { logBytesMax: -1 }]) {
    assert.throws(() => aScheduler({ settings }), /scheduler\.setting\.invalid/)
  }
})
