/** Dispatch: one transaction from QUEUED to RUNNING with its run, for one worker and for several. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { claimJobs } from './claim-next.ts'
import { finishRun } from './finish-run.ts'
import { registerJobType } from './job-types.ts'
import { readJob } from './job-views.ts'
import { SchedulerFaultInjected, type SchedulerPoint } from './failpoints.ts'
import { releaseReservation, reserve } from './reservations.ts'
import {
  aFile,
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
import { query } from './database.ts'
import { submitJob } from './submit-job.ts'

const submit = (scheduler: TestScheduler, job_type = 'story') => must(submitJob(scheduler, { job_type })).job_id
const claimed = (scheduler: TestScheduler, max = 1) => must(claimJobs(scheduler, max)).runs.map((run) => run.job.job_id)

describe('one worker', () => {
  test('[SCH-064] [SCH-069] [SCH-038] the job is RUNNING with started_at, and its run is open with the params of the job', () => {
    const scheduler = aScheduler()
    const run = aRun(scheduler, { params: { text: 'x', n: 1 } })
    const { job, run: stored } = must(readJob(scheduler, run.job.job_id))
    assert.deepEqual([job.status, job.started_at, job.finished_at, job.worker_id], ['RUNNING', START, null, null])
    assert.deepEqual(
      [stored?.status, stored?.started_at, stored?.finished_at, stored?.params_snapshot],
      [null, START, null, '{"text":"x","n":1}'],
    )
    assert.deepEqual([run.runId, run.params, run.attempt], [stored?.run_id, { text: 'x', n: 1 }, 1])
  })

  test('one worker runs one job, and strictly in order', () => {
    const scheduler = aScheduler()
    const jobs = [submit(scheduler), submit(scheduler), submit(scheduler)]
    for (const job of jobs) {
      const [run] = must(claimJobs(scheduler)).runs
      assert.equal(run?.job.job_id, job)
      const waiting = must(claimJobs(scheduler))
      assert.deepEqual([waiting.runs, waiting.waiting?.reason], [[], 'busy'])
      must(finishRun(scheduler, run?.runId ?? '', { outcome: 'completed' }))
    }
    assert.equal(must(claimJobs(scheduler)).waiting?.reason, 'empty')
  })

  test('[SCH-097] [SCH-098] nothing is dispatched while a reservation is ACTIVE; afterwards the first job is still first', () => {
    const scheduler = aScheduler()
    const [first, second] = [submit(scheduler), submit(scheduler)]
    const before = rowsOf(scheduler, 'jobs')
    const { reservation_id, expires_at } = must(reserve(scheduler, { reserved_by: 'me' }))
    const waiting = must(claimJobs(scheduler))
    assert.deepEqual([waiting.runs, waiting.waiting], [[], { reason: 'reserved', until: new Date(expires_at) }])
    assert.deepEqual(rowsOf(scheduler, 'jobs'), before)
    must(releaseReservation(scheduler, reservation_id))
    assert.deepEqual(claimed(scheduler), [first])
    assert.notEqual(first, second)
  })

  test('[SCH-117] nothing is dispatched before recovery has ended, and never by a guest', () => {
    const file = aFile()
    const owner = must(openTest({ file }))
    submit(owner)
    assert.equal(codeOf(claimJobs(owner)), 'scheduler.not_recovered')
    const guest = aScheduler({ file, role: 'guest' })
    assert.equal(codeOf(claimJobs(guest)), 'scheduler.not_owner')
    guest.close()
    owner.close()
  })

  test('a job with unreadable params is closed as FAILED without a retry, and the queue continues', () => {
    const scheduler = aScheduler()
    const [bad, good] = [submit(scheduler), submit(scheduler)]
    const deep = `{"a":${'['.repeat(200)}${']'.repeat(200)}}`
    const plant = query<never, { job_id: string; params: string }>(
      `update jobs set params = $params where job_id = $job_id`,
    )
    scheduler.db.write((tx) => ({ ok: true, value: tx.run(plant, { job_id: bad, params: deep }) }))
    assert.deepEqual(claimed(scheduler), [good])
    const { job, run } = must(readJob(scheduler, bad))
    assert.deepEqual(
      [run?.status, run?.error_class, run?.retry_decided, job.finished_at],
      ['FAILED', 'malformed_payload', 'not_retryable', START],
    )
    assert.equal(countOf(scheduler, 'jobs'), 2)
  })
})

describe('delayed jobs', () => {
  test('a job that is not due is skipped, and runs at its position once it is due', () => {
    const scheduler = aScheduler()
    const late = must(
      submitJob(scheduler, { job_type: 'story', not_before: new Date(START + 5_000).toISOString() }),
    ).job_id
    const [a, b] = [submit(scheduler), submit(scheduler)]
    const [run] = must(claimJobs(scheduler)).runs
    assert.equal(run?.job.job_id, a)
    must(finishRun(scheduler, run?.runId ?? '', { outcome: 'completed' }))
    scheduler.clock.by(5_000)
    assert.deepEqual(claimed(scheduler), [late])
    assert.notEqual(late, b)
  })

  test('with only a delayed job left, the wait has an end', () => {
    const scheduler = aScheduler()
    must(submitJob(scheduler, { job_type: 'story', not_before: new Date(START + 5_000).toISOString() }))
    assert.deepEqual(must(claimJobs(scheduler)).waiting, { reason: 'empty', until: new Date(START + 5_000) })
    assert.equal(
      must(submitJob(scheduler, { job_type: 'story', not_before: new Date(START).toISOString() })).hold,
      null,
    )
  })
})

describe('several workers', () => {
  test('one commit claims as many jobs as there are workers, in queue order', () => {
    const scheduler = aScheduler({ settings: { workers: 3 } })
    const jobs = Array.from({ length: 5 }, () => submit(scheduler))
    assert.deepEqual(claimed(scheduler, 10), jobs.slice(0, 3))
    assert.equal(must(claimJobs(scheduler, 10)).waiting?.reason, 'busy')
  })

  test('a type at its limit is skipped until it is below the limit', () => {
    const scheduler = aScheduler({
      settings: { workers: 4 },
      jobTypes: [{ job_type: 'story', concurrency_limit: 1 }, { job_type: 'research' }],
    })
    const [s1, s2, r1, s3, r2] = ['story', 'story', 'research', 'story', 'research'].map((type) =>
      submit(scheduler, type),
    )
    const first = must(claimJobs(scheduler, 4)).runs
    assert.deepEqual(
      first.map((run) => run.job.job_id),
      [s1, r1, r2],
    )
    assert.deepEqual(claimed(scheduler, 4), [])
    must(finishRun(scheduler, first[0]?.runId ?? '', { outcome: 'completed' }))
    assert.deepEqual(claimed(scheduler, 4), [s2])
    assert.ok(s3)
  })

  test('the index by type exists only while a type has a limit', () => {
    const scheduler = aScheduler()
    const has = () =>
      scheduler.db.one(
        query<{ n: number }>(`select count(*) as n from sqlite_schema where name = 'jobs_type_queue_ix'`),
      )?.n
    assert.equal(has(), 0)
    must(registerJobType(scheduler, { job_type: 'story', concurrency_limit: 2 }))
    assert.equal(has(), 1)
    must(registerJobType(scheduler, { job_type: 'story' }))
    assert.equal(has(), 0)
  })
})

describe('a dispatch that is cut', () => {
  for (const point of [
    'dispatch.claimed',
    'dispatch.run_inserted',
    'dispatch.before_commit',
  ] as const satisfies readonly SchedulerPoint[]) {
    test(`[SCH-105] [SCH-004] at ${point}: the job is QUEUED, there is no run, and the next try dispatches it`, () => {
      const scheduler = aScheduler({ points: { faults: [{ point, hit: 1, act: 'throw' }] } })
      const job = submit(scheduler)
      const before = rowsOf(scheduler, 'jobs')
      assert.throws(() => claimJobs(scheduler), SchedulerFaultInjected)
      assert.deepEqual(rowsOf(scheduler, 'jobs'), before)
      assert.equal(countOf(scheduler, 'job_runs'), 0)
      assert.deepEqual(claimed(scheduler), [job])
    })
  }
})

test('[SCH-100] [SCH-121] two dispatchers on one file never get the same job', () => {
  const file = aFile()
  const one = aScheduler({ file, settings: { workers: 1_000 } })
  const other = { ...aScheduler({ file, role: 'guest', settings: { workers: 1_000 } }), role: 'owner' as const }
  const jobs = Array.from({ length: 40 }, () => submit(one))
  const got = jobs.flatMap((_, index) => claimed(index % 2 === 0 ? one : other))
  assert.deepEqual(got, jobs)
  assert.equal(countOf(one, 'job_runs'), 40)
  other.close()
  one.close()
})
