/** Recovery after a crash: the five rows of the matrix, interrupted anywhere and repeated, always with the same result. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { checkInvariants } from './check-invariants.ts'
import { claimJobs } from './claim-next.ts'
import { listQueue, readJob } from './job-views.ts'
import { type SchedulerFault, SchedulerFaultInjected } from './failpoints.ts'
import { requestStop } from './run-files.ts'
import { runEndPath } from './run-outcome.ts'
import { recordProcess } from './run-repository.ts'
import { CRASH_ERROR, recover } from './recover.ts'
import { reserve } from './reservations.ts'
import type { OrphanEnd, ProcessIdentity } from './runner-settings.ts'
import {
  aClock,
  aFile,
  aFolder,
  anId,
  aRun,
  aScheduler,
  codeOf,
  countOf,
  must,
  openTest,
  rowsOf,
  START,
  type TestScheduler,
} from '#test/scheduler/fixture'
import { startDirectJob } from './direct-job.ts'
import { type SqlParams, query } from './database.ts'
import { submitJob } from './submit-job.ts'

const gone = { endOrphan: async () => 'gone' as const }

function exec(scheduler: TestScheduler, sql: string, params: SqlParams): void {
  must(scheduler.db.write((tx) => ({ ok: true, value: tx.run(query<never, SqlParams>(sql), params) })))
}

const submit = (scheduler: TestScheduler) => must(submitJob(scheduler, { job_type: 'story' })).job_id

/** RUNNING without a run, which no version of Concord writes. */
function plantWithoutRun(scheduler: TestScheduler): string {
  const job_id = submit(scheduler)
  exec(scheduler, `update jobs set status = 'RUNNING', started_at = ${START} where job_id = $job_id`, { job_id })
  return job_id
}

/** RUNNING with a run that has its outcome, cut before `finished_at` of the job. */
function plantClosed(scheduler: TestScheduler, status: 'COMPLETED' | 'FAILED', verdict: string | null): string {
  const job_id = plantWithoutRun(scheduler)
  exec(
    scheduler,
    `insert into job_runs (run_id, job_id, params_snapshot, started_at) values ($run_id, $job_id, '{}', ${START})`,
    { run_id: anId(), job_id },
  )
  exec(
    scheduler,
    `update job_runs set status = $status, finished_at = ${START + 5}, error = 'own', retry_decided = $verdict where job_id = $job_id`,
    { job_id, status, verdict },
  )
  return job_id
}

describe('the matrix', () => {
  test('[SCH-114] [SCH-118] QUEUED: nothing is done', async () => {
    const scheduler = must(openTest())
    submit(scheduler)
    submit(scheduler)
    const before = rowsOf(scheduler, 'jobs')
    assert.deepEqual(must(await recover(scheduler, gone)), [])
    assert.deepEqual(rowsOf(scheduler, 'jobs'), before)
  })

  test('[SCH-109] [SCH-110] [SCH-111] [SCH-118] RUNNING with an open run: FAILED, a retry, a notification, never resumed', async () => {
    const scheduler = aScheduler()
    const { job, runId } = aRun(scheduler, { params: { a: 1 } })
    scheduler.clock.by(1_000)
    assert.deepEqual(must(await recover(scheduler, gone)), [{ step: 1, about: job.job_id, did: 'run_failed' }])
    const report = must(readJob(scheduler, job.job_id))
    assert.deepEqual(
      [report.run?.run_id, report.run?.status, report.run?.error, report.run?.finished_at],
      [runId, 'FAILED', CRASH_ERROR, START + 1_000],
    )
    assert.deepEqual(
      [report.job.status, report.job.finished_at, report.run?.retry_decided],
      ['RUNNING', START + 1_000, 'retry'],
    )
    const [retry] = must(listQueue(scheduler)).jobs
    assert.deepEqual([retry?.retry_of, retry?.params], [job.job_id, '{"a":1}'])
    assert.deepEqual(
      rowsOf(scheduler, 'notifications').map((row) => row['notification_id']),
      [`run_failed:${runId}`],
    )
    assert.equal(must(claimJobs(scheduler)).runs[0]?.job.job_id, retry?.job_id)
  })

  test('[SCH-109] [SCH-118] [SCH-119] RUNNING without a run: a FAILED run is made, and a retry', async () => {
    const scheduler = must(openTest())
    const job = plantWithoutRun(scheduler)
    assert.deepEqual(
      must(checkInvariants(scheduler)).violations.map(({ invariant }) => invariant),
      ['S01'],
    )
    assert.deepEqual(must(await recover(scheduler, gone)), [{ step: 1, about: job, did: 'run_created' }])
    const report = must(readJob(scheduler, job))
    assert.deepEqual([report.run?.status, report.run?.error, report.run?.started_at], ['FAILED', CRASH_ERROR, START])
    assert.equal(must(listQueue(scheduler)).jobs[0]?.retry_of, job)
    assert.deepEqual(must(checkInvariants(scheduler)).violations, [])
  })

  for (const [status, verdict] of [
    ['COMPLETED', null],
    ['FAILED', 'exhausted'],
  ] as const) {
    test(`[SCH-109] [SCH-118] RUNNING with a run that is ${status}: finished_at only`, async () => {
      const scheduler = must(openTest())
      const job = plantClosed(scheduler, status, verdict)
      const before = rowsOf(scheduler, 'job_runs')
      assert.deepEqual(must(await recover(scheduler, gone)), [{ step: 1, about: job, did: 'finished_at_set' }])
      assert.deepEqual(rowsOf(scheduler, 'job_runs'), before)
      assert.equal(must(readJob(scheduler, job)).job.finished_at, START + 5)
      assert.deepEqual([countOf(scheduler, 'jobs'), countOf(scheduler, 'notifications')], [1, 0])
    })
  }

  test('[SCH-113] [SCH-118] a FAILED run without a verdict gets one, after step 1: a retry below the maximum', async () => {
    const scheduler = must(openTest())
    const job = plantClosed(scheduler, 'FAILED', null)
    const actions = must(await recover(scheduler, gone))
    assert.deepEqual(
      actions.map(({ step, did }) => [step, did]),
      [
        [1, 'finished_at_set'],
        [3, 'retried'],
      ],
    )
    assert.equal(must(listQueue(scheduler)).jobs[0]?.retry_of, job)
    assert.equal(must(readJob(scheduler, job)).run?.retry_decided, 'retry')
    assert.equal(rowsOf(scheduler, 'notifications')[0]?.['kind'], 'run_failed')
  })

  test('[SCH-113] [SCH-087] at the maximum the failure is permanent and sends a notification', async () => {
    const scheduler = must(openTest({ jobTypes: [{ job_type: 'story', retry_policy: { max_retries: 0 } }] }))
    const job = plantClosed(scheduler, 'FAILED', null)
    assert.equal(must(await recover(scheduler, gone)).at(-1)?.did, 'permanent')
    assert.equal(must(readJob(scheduler, job)).run?.retry_decided, 'exhausted')
    assert.equal(rowsOf(scheduler, 'notifications')[0]?.['kind'], 'job_failed')
  })

  test('[SCH-113] [SCH-086] a job with a retry gets no second one', async () => {
    const scheduler = must(openTest())
    const job = plantClosed(scheduler, 'FAILED', null)
    exec(
      scheduler,
      `insert into jobs (job_id, job_type, params, position, created_at, queued_at, retry_of) values ($id, 'story', '{}', 900, 1, 1, $job)`,
      { id: anId(), job },
    )
    must(await recover(scheduler, gone))
    assert.equal(countOf(scheduler, 'jobs'), 2)
    assert.equal(must(readJob(scheduler, job)).run?.retry_decided, 'retry')
  })

  test('[SCH-112] [SCH-118] an ACTIVE reservation: expired if its time has passed', async () => {
    const clock = aClock()
    const file = aFile()
    const first = aScheduler({ file, clock })
    const { reservation_id } = must(reserve(first, { reserved_by: 'x' }))
    first.close()
    clock.by(300_000)
    const second = must(openTest({ file, clock }))
    assert.deepEqual(must(await recover(second, gone)), [
      { step: 2, about: reservation_id, did: 'reservation_expired' },
    ])
    assert.equal(rowsOf(second, 'direct_reservations')[0]?.['status'], 'EXPIRED')
    second.close()
  })

  test('[SCH-112] [SCH-118] an ACTIVE reservation that has time left stays, and blocks until the tick expires it', async () => {
    const clock = aClock()
    const file = aFile()
    const first = aScheduler({ file, clock })
    const { reservation_id } = must(reserve(first, { reserved_by: 'x' }))
    const job = submit(first)
    first.close()
    clock.by(299_999)
    const second = must(openTest({ file, clock }))
    assert.deepEqual(must(await recover(second, gone)), [{ step: 2, about: reservation_id, did: 'reservation_kept' }])
    assert.equal(must(claimJobs(second)).waiting?.reason, 'reserved')
    clock.by(1)
    assert.equal(must(claimJobs(second)).runs[0]?.job.job_id, job)
    second.close()
  })
})

describe('children of the dead process', () => {
  async function recoverWith(end: OrphanEnd, isRecorded = true) {
    const scheduler = aScheduler()
    const { runId, job } = aRun(scheduler)
    if (isRecorded) must(recordProcess(scheduler, runId, { pid: 4_711, startedAt: '99887', bootId: 'boot-1' }))
    const asked: [ProcessIdentity, string | null][] = []
    const endOrphan = async (identity: ProcessIdentity) => {
      asked.push([identity, must(readJob(scheduler, job.job_id)).run?.status ?? null])
      return end
    }
    must(await recover(scheduler, { endOrphan }))
    return { scheduler, runId, job, asked }
  }

  test('are ended by pid, start and boot before anything is written, so before the retry can start', async () => {
    const { runId, job, asked, scheduler } = await recoverWith('ended')
    assert.deepEqual(asked, [[{ runId, jobId: job.job_id, pid: 4_711, startedAt: '99887', bootId: 'boot-1' }, null]])
    assert.equal(must(listQueue(scheduler)).jobs.length, 1)
  })

  test('a child without a recorded pid is found by its run', async () => {
    const { asked, runId } = await recoverWith('gone', false)
    assert.deepEqual(
      asked.map(([identity]) => [identity.runId, identity.pid]),
      [[runId, null]],
    )
  })

  test('a child that cannot be ended rules out the retry', async () => {
    const { scheduler, job } = await recoverWith('alive')
    assert.equal(must(readJob(scheduler, job.job_id)).run?.retry_decided, 'orphan_alive')
    assert.deepEqual(
      [must(listQueue(scheduler)).jobs, rowsOf(scheduler, 'notifications')[0]?.['kind']],
      [[], 'job_failed'],
    )
  })

  test('[L12] [SCH-111] only an end without a signal is the outcome of the run, whatever its exit code', async () => {
    const completed = { outcome: 'completed', exitCode: 0 }
    const skipped = { outcome: 'skipped', error: 'exit code 9' }
    for (const [end, isSignalled, isStopped, told] of [
      [completed, false, false, ['COMPLETED', null]],
      [completed, false, true, ['COMPLETED', null]],
      [completed, true, false, ['FAILED', CRASH_ERROR]],
      [completed, true, true, ['FAILED', 'cancelled']],
      [skipped, true, false, ['FAILED', CRASH_ERROR]],
      [skipped, false, false, ['SKIPPED', 'exit code 9']],
    ] as const) {
      const scheduler = aScheduler()
      const { runId, job } = aRun(scheduler)
      const folder = aFolder()
      writeFileSync(runEndPath(folder, runId), JSON.stringify({ end, isSignalled }))
      if (isStopped) must(requestStop(scheduler, job.job_id, folder))
      must(await recover(scheduler, { endOrphan: async () => 'ended' }, folder))
      const { run } = must(readJob(scheduler, job.job_id))
      assert.deepEqual([run?.status, run?.error], told)
    }
  })

  test('a direct execution is recovered too, and is not repeated', async () => {
    const scheduler = aScheduler()
    const { reservation_id } = must(reserve(scheduler, { reserved_by: 'x' }))
    const direct = must(startDirectJob(scheduler, reservation_id, { job_type: 'story' }))
    must(await recover(scheduler, gone))
    assert.equal(must(readJob(scheduler, direct.job.job_id)).run?.retry_decided, 'direct')
    assert.equal(countOf(scheduler, 'jobs'), 1)
  })
})

describe('recovery that is cut', () => {
  /** All cases together: two jobs in flight, one without a run, one closed, one undecided, a stale reservation. */
  function aWreck(file: string, clock = aClock()): void {
    const scheduler = aScheduler({ file, clock, settings: { workers: 9 } })
    aRun(scheduler)
    aRun(scheduler)
    plantWithoutRun(scheduler)
    plantClosed(scheduler, 'COMPLETED', null)
    plantClosed(scheduler, 'FAILED', null)
    submit(scheduler)
    must(reserve(scheduler, { reserved_by: 'x' }))
    clock.by(300_000)
    scheduler.close()
  }

  /** What matters, without the ids that differ from run to run. */
  function shape(scheduler: TestScheduler): unknown {
    const jobs = rowsOf(scheduler, 'jobs')
    const runs = new Map(rowsOf(scheduler, 'job_runs').map((run) => [run['job_id'], run]))
    return {
      jobs: jobs
        .map((job) => {
          const run = runs.get(job['job_id'])
          return [
            job['status'],
            job['finished_at'] !== null,
            run?.['status'],
            run?.['error'],
            run?.['retry_decided'],
            job['retry_of'] !== null,
          ].join()
        })
        .toSorted(),
      told: rowsOf(scheduler, 'notifications')
        .map((row) => String(row['kind']))
        .toSorted(),
      reservations: rowsOf(scheduler, 'direct_reservations').map((row) => row['status']),
      queue: must(listQueue(scheduler)).jobs.length,
    }
  }

  const whole = (async () => {
    const [file, clock] = [aFile(), aClock()]
    aWreck(file, clock)
    const scheduler = must(openTest({ file, clock }))
    must(await recover(scheduler, gone))
    const result = shape(scheduler)
    scheduler.close()
    return result
  })()

  const cuts: readonly (readonly [SchedulerFault['point'], number])[] = [
    ['finish.outcome', 1],
    ['finish.finished_at', 1],
    ['finish.retry_inserted', 1],
    ['finish.retry_inserted', 2],
    ['finish.before_commit', 2],
    ['recovery.step_1', 1],
    ['recovery.step_1', 3],
    ['recovery.step_1', 5],
    ['reservation.expire', 1],
    ['recovery.step_2', 1],
    ['recovery.step_3', 1],
  ]

  for (const [point, hit] of cuts) {
    test(`[SCH-115] [SCH-117] at ${point} (${hit}): nothing is dispatched, and a second start has the same result`, async () => {
      const [file, clock] = [aFile(), aClock()]
      aWreck(file, clock)
      // Twice: the second recovery is cut as well.
      for (let start = 0; start < 2; start++) {
        const cut = must(openTest({ file, clock, points: { faults: [{ point, hit, act: 'throw' }] } }))
        const error = await recover(cut, gone).then(
          () => undefined,
          (reason: unknown) => reason,
        )
        if (start === 0) {
          assert.ok(error instanceof SchedulerFaultInjected)
          assert.equal(codeOf(claimJobs(cut)), 'scheduler.not_recovered')
        }
        cut.close()
      }
      const again = must(openTest({ file, clock }))
      must(await recover(again, gone))
      assert.deepEqual(shape(again), await whole)
      assert.deepEqual(must(checkInvariants(again)).violations, [])
      again.close()
    })
  }

  test('[SCH-115] recovery of a sound file changes nothing, however often', async () => {
    const [file, clock] = [aFile(), aClock()]
    aWreck(file, clock)
    const scheduler = must(openTest({ file, clock }))
    must(await recover(scheduler, gone))
    const before = [rowsOf(scheduler, 'jobs'), rowsOf(scheduler, 'job_runs'), rowsOf(scheduler, 'notifications')]
    for (let count = 0; count < 3; count++) assert.deepEqual(must(await recover(scheduler, gone)), [])
    assert.deepEqual(
      [rowsOf(scheduler, 'jobs'), rowsOf(scheduler, 'job_runs'), rowsOf(scheduler, 'notifications')],
      before,
    )
    scheduler.close()
  })

  test('only the owner recovers', async () => {
    const file = aFile()
    const owner = aScheduler({ file })
    const guest = aScheduler({ file, role: 'guest' })
    assert.equal(codeOf(await recover(guest, gone)), 'scheduler.not_owner')
    guest.close()
    owner.close()
  })
})
