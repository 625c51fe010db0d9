/** The end of a run: outcome, job, retry and notification in one transaction, each once. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { aFile, aRun, aScheduler, codeOf, countOf, fail, must, rowsOf, START } from '#test/scheduler/fixture'
import { openRaw } from '#test/scheduler/raw-file'
import { checkInvariants } from './check-invariants.ts'
import { claimJobs } from './claim-next.ts'
import { SchedulerFaultInjected } from './failpoints.ts'
import { finishRun, finishRunSurely, type OutcomeAlert } from './finish-run.ts'
import { readJob } from './job-views.ts'
import { addArtifacts, recordLogPath, recordProcess } from './run-repository.ts'

const told = (scheduler: ReturnType<typeof aScheduler>) =>
  rowsOf(scheduler, 'notifications').map((row) => row['notification_id'])

describe('outcomes', () => {
  test('[SCH-065] [SCH-070] success: COMPLETED, finished_at, artifacts; the job stays RUNNING with finished_at', () => {
    const scheduler = aScheduler()
    const { runId, job } = aRun(scheduler)
    scheduler.clock.by(7)
    must(finishRun(scheduler, runId, { outcome: 'completed', exitCode: 0, artifacts: ['out/a.txt', 'out/b.txt'] }))
    const report = must(readJob(scheduler, job.job_id))
    assert.deepEqual([report.job.status, report.job.finished_at], ['RUNNING', START + 7])
    assert.deepEqual(
      [
        report.run?.status,
        report.run?.finished_at,
        report.run?.exit_code,
        report.run?.error,
        report.run?.artifacts,
        report.run?.retry_decided,
      ],
      ['COMPLETED', START + 7, 0, null, '["out/a.txt","out/b.txt"]', null],
    )
    assert.deepEqual(told(scheduler), [`run_completed:${runId}`])
    assert.equal(countOf(scheduler, 'jobs'), 1)
  })

  test('[SCH-071] failure: FAILED, finished_at, error, exit code, and the verdict', () => {
    const scheduler = aScheduler()
    const { runId, job } = aRun(scheduler)
    const { retry } = fail(scheduler, runId, { exitCode: 3 })
    const { run } = must(readJob(scheduler, job.job_id))
    assert.deepEqual(
      [run?.status, run?.finished_at, run?.error, run?.exit_code, run?.error_class, run?.retry_decided],
      ['FAILED', START, 'it broke', 3, 'work_failed', 'retry'],
    )
    assert.equal(retry?.retry_of, job.job_id)
    assert.deepEqual(told(scheduler), [`run_failed:${runId}`])
  })

  test('[SCH-072] skipped: SKIPPED, finished_at, and no retry', () => {
    const scheduler = aScheduler()
    const { runId, job } = aRun(scheduler)
    must(finishRun(scheduler, runId, { outcome: 'skipped', error: 'no input file' }))
    const { run } = must(readJob(scheduler, job.job_id))
    assert.deepEqual(
      [run?.status, run?.finished_at, run?.error, run?.retry_decided],
      ['SKIPPED', START, 'no input file', null],
    )
    assert.equal(countOf(scheduler, 'jobs'), 1)
  })

  test('[SCH-066] a stopped run is FAILED with "cancelled" and is not retried', () => {
    const scheduler = aScheduler()
    const { runId, job } = aRun(scheduler)
    must(finishRun(scheduler, runId, { outcome: 'stopped' }))
    const { run } = must(readJob(scheduler, job.job_id))
    assert.deepEqual([run?.status, run?.error, run?.retry_decided], ['FAILED', 'cancelled', 'stopped'])
    assert.deepEqual([countOf(scheduler, 'jobs'), told(scheduler)], [1, [`job_failed:${runId}`]])
  })

  test('[SCH-039] a second outcome is refused and changes nothing', () => {
    const scheduler = aScheduler()
    const { runId } = aRun(scheduler)
    must(finishRun(scheduler, runId, { outcome: 'completed' }))
    const before = [rowsOf(scheduler, 'job_runs'), rowsOf(scheduler, 'jobs'), rowsOf(scheduler, 'notifications')]
    for (const outcome of ['completed', 'skipped', 'stopped'] as const) {
      assert.equal(codeOf(finishRun(scheduler, runId, { outcome })), 'scheduler.run.finished')
    }
    assert.equal(codeOf(finishRun(scheduler, runId, { outcome: 'failed', error: 'x' })), 'scheduler.run.finished')
    assert.deepEqual(
      [rowsOf(scheduler, 'job_runs'), rowsOf(scheduler, 'jobs'), rowsOf(scheduler, 'notifications')],
      before,
    )
    assert.equal(codeOf(finishRun(scheduler, 'nobody', { outcome: 'completed' })), 'scheduler.run.not_found')
  })

  test('a foreign error text is cut and made storable', () => {
    const scheduler = aScheduler()
    const { runId, job } = aRun(scheduler)
    fail(scheduler, runId, { error: `a\0b\ud800${'x'.repeat(10_000)}` })
    const error = must(readJob(scheduler, job.job_id)).run?.error ?? ''
    assert.equal(error.length, 8_192)
    assert.ok(error.startsWith('a\ufffdb\ufffdx'))
  })
})

describe('what a runner records', () => {
  test('[SCH-045] the log path once, and not after the end', () => {
    const scheduler = aScheduler()
    const { runId } = aRun(scheduler)
    assert.equal(must(recordLogPath(scheduler, runId, 'logs/1.log')).log_path, 'logs/1.log')
    assert.equal(codeOf(recordLogPath(scheduler, runId, 'logs/2.log')), 'row.conflict')
    must(finishRun(scheduler, runId, { outcome: 'completed' }))
    assert.equal(codeOf(recordLogPath(scheduler, runId, 'logs/2.log')), 'scheduler.run.finished')
    assert.equal(codeOf(recordLogPath(scheduler, runId, '')), 'api.field.value')
  })

  test('the process once, with the time and the boot it started in', () => {
    const scheduler = aScheduler()
    const { runId } = aRun(scheduler)
    const run = must(recordProcess(scheduler, runId, { pid: 77, startedAt: '12345', bootId: 'b' }))
    assert.deepEqual([run.process_pid, run.process_started_at, run.process_boot_id], [77, '12345', 'b'])
    assert.equal(codeOf(recordProcess(scheduler, runId, { pid: 78, startedAt: '1', bootId: null })), 'row.conflict')
  })

  test('[SCH-044] artifacts are appended, before the end, with it and after it', () => {
    const scheduler = aScheduler()
    const { runId } = aRun(scheduler)
    must(addArtifacts(scheduler, runId, ['a']))
    must(finishRun(scheduler, runId, { outcome: 'completed', artifacts: ['b', 'c'] }))
    assert.equal(must(addArtifacts(scheduler, runId, ['d'])).artifacts, '["a","b","c","d"]')
    assert.equal(codeOf(addArtifacts(scheduler, runId, ['a\0'])), 'api.field.value')
  })
})

describe('an end that is cut', () => {
  for (const point of [
    'finish.outcome',
    'finish.finished_at',
    'finish.retry_inserted',
    'finish.before_commit',
  ] as const) {
    test(`[SCH-073] [SCH-004] at ${point}: nothing is written, and the next try writes everything`, () => {
      const scheduler = aScheduler({ points: { faults: [{ point, hit: 1, act: 'throw' }] } })
      const { runId } = aRun(scheduler)
      const state = () => [rowsOf(scheduler, 'jobs'), rowsOf(scheduler, 'job_runs'), rowsOf(scheduler, 'notifications')]
      const before = state()
      assert.throws(() => fail(scheduler, runId), SchedulerFaultInjected)
      assert.deepEqual(state(), before)
      fail(scheduler, runId)
      assert.deepEqual([countOf(scheduler, 'jobs'), countOf(scheduler, 'notifications')], [2, 1])
      assert.deepEqual(must(checkInvariants(scheduler)).violations, [])
    })
  }
})

describe('an end that cannot be written', () => {
  test('[SCH-106] it is retried until the file is free', async () => {
    const file = aFile()
    const scheduler = aScheduler({ file, busyTimeoutMs: 0 })
    const { runId } = aRun(scheduler)
    const other = openRaw(file)
    other.exec('begin immediate')
    const waits: number[] = []
    const finished = await finishRunSurely(
      scheduler,
      runId,
      { outcome: 'completed' },
      {
        alert: () => assert.fail('no alarm was due'),
        wait: async (ms) => {
          waits.push(ms)
          if (waits.length === 3) other.exec('commit')
        },
      },
    )
    assert.equal(finished.ok, true)
    assert.deepEqual(waits, [100, 200, 400])
    other.close()
    scheduler.close()
  })

  test('[SCH-106] after the last attempt it raises one alert', async () => {
    const file = aFile()
    const scheduler = aScheduler({ file, busyTimeoutMs: 0 })
    const { runId } = aRun(scheduler)
    const other = openRaw(file)
    other.exec('begin immediate')
    const alerts: OutcomeAlert[] = []
    const finished = await finishRunSurely(
      scheduler,
      runId,
      { outcome: 'completed' },
      { attemptsMax: 4, alert: (alert) => alerts.push(alert), wait: async () => {} },
    )
    assert.equal(codeOf(finished), 'database_busy')
    assert.deepEqual(
      alerts.map(({ attempts, refusal }) => [attempts, refusal.code]),
      [[4, 'database_busy']],
    )
    other.exec('commit')
    assert.deepEqual(must(claimJobs(scheduler)).waiting?.reason, 'busy')
    other.close()
    scheduler.close()
  })

  test('a commit whose answer was lost is found and not written twice', async () => {
    const scheduler = aScheduler()
    const { runId } = aRun(scheduler)
    let isFirst = true
    // The first commit is stored, but the caller gets a disk error.
    const write: typeof scheduler.db.write = (work) => {
      const decision = scheduler.db.write(work)
      if (!isFirst) return decision
      isFirst = false
      return { ok: false, code: 'scheduler.file.io', reason: 'lost' }
    }
    const deaf = {
      ...scheduler,
      db: Object.assign(Object.create(scheduler.db) as typeof scheduler.db, {
        write,
        read: scheduler.db.read.bind(scheduler.db),
      }),
    }
    const finished = await finishRunSurely(
      deaf,
      runId,
      { outcome: 'completed' },
      { alert: () => assert.fail('no alarm was due'), wait: async () => {} },
    )
    assert.equal(must(finished).run.status, 'COMPLETED')
    assert.equal(countOf(scheduler, 'notifications'), 1)
  })
})
