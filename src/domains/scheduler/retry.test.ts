/** Retry chains: a failed job never runs again. A new job follows it, as often as its type allows. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  aFile,
  aRun,
  aScheduler,
  codeOf,
  countOf,
  fail,
  must,
  rowsOf,
  START,
  type TestScheduler,
} from '#test/scheduler/fixture'
import { claimJobs } from './claim-next.ts'
import type { RetryPolicyBody } from './contract.ts'
import { query } from './database.ts'
import { decideRetryPlan, defaultRetryPolicy, type JobTypeBody, readRetryPolicy, registerJobType } from './job-types.ts'
import { readJob, readRetryChain } from './job-views.ts'
import { recover } from './recover.ts'
import { submitJob } from './submit-job.ts'

const withPolicy = (retry_policy: JobTypeBody['retry_policy']) =>
  aScheduler({ jobTypes: [{ job_type: 'story', retry_policy }] })
const next = (scheduler: TestScheduler) => must(claimJobs(scheduler)).runs[0]

/** Fails a job and its retries until none follows, and returns the attempts. */
function failAll(scheduler: TestScheduler): number[] {
  const attempts: number[] = []
  for (let run = next(scheduler); run; run = next(scheduler)) {
    attempts.push(run.attempt)
    fail(scheduler, run.runId)
  }
  return attempts
}

describe('the chain', () => {
  test('[SCH-081] [SCH-085] a retry is a new job: same work, same place of origin, at the end of its priority', () => {
    const scheduler = aScheduler()
    const run = aRun(scheduler, { params: { a: [1] }, priority: 7 })
    const waiting = must(submitJob(scheduler, { job_type: 'story', priority: 7 }))
    scheduler.clock.by(10)
    const { retry } = fail(scheduler, run.runId)
    assert.ok(retry)
    const { job_type, template_id, params, priority, group_id, schedule_id } = run.job
    assert.deepEqual(
      { ...retry, job_id: '', position: 0 },
      {
        ...run.job,
        job_type,
        template_id,
        params,
        priority,
        group_id,
        schedule_id,
        job_id: '',
        position: 0,
        status: 'QUEUED',
        retry_of: run.job.job_id,
        created_at: START + 10,
        queued_at: START + 10,
        started_at: null,
      },
    )
    assert.notEqual(retry.job_id, run.job.job_id)
    assert.ok(retry.position > waiting.position)
    assert.equal(must(readJob(scheduler, run.job.job_id)).job.finished_at, START + 10)
  })

  test('[SCH-082] [SCH-083] [SCH-088] three retries by default, at once: attempts 1 to 4', () => {
    const scheduler = aScheduler()
    must(submitJob(scheduler, { job_type: 'story' }))
    assert.deepEqual(failAll(scheduler), [1, 2, 3, 4])
    assert.equal(scheduler.clock.ms, START)
    assert.deepEqual(
      rowsOf(scheduler, 'job_runs').map((row) => row['retry_decided']),
      ['retry', 'retry', 'retry', 'exhausted'],
    )
  })

  test('[SCH-087] the last failure of a chain notifies job_failed, earlier ones run_failed', () => {
    const scheduler = withPolicy({ max_retries: 1 })
    must(submitJob(scheduler, { job_type: 'story' }))
    failAll(scheduler)
    assert.deepEqual(
      rowsOf(scheduler, 'notifications').map((row) => row['kind']),
      ['run_failed', 'job_failed'],
    )
    const last = JSON.parse(String(rowsOf(scheduler, 'notifications')[1]?.['payload']))
    assert.deepEqual([last.retry_decided, last.attempt, last.retry_job_id], ['exhausted', 2, null])
  })

  test('[SCH-084] the whole chain is read from any of its jobs, in order, with every run', () => {
    const scheduler = aScheduler()
    const { job } = aRun(scheduler)
    const first = must(readJob(scheduler, job.job_id)).run?.run_id ?? ''
    const second = fail(scheduler, first).retry?.job_id ?? ''
    const run = next(scheduler)
    const third = fail(scheduler, run?.runId ?? '').retry?.job_id ?? ''
    for (const id of [job.job_id, second, third]) {
      const chain = must(readRetryChain(scheduler, id))
      assert.deepEqual(
        chain.map((report) => report.job.job_id),
        [job.job_id, second, third],
      )
      assert.deepEqual(
        chain.map((report) => report.run?.status),
        ['FAILED', 'FAILED', undefined],
      )
    }
    assert.equal(codeOf(readRetryChain(scheduler, 'nobody')), 'scheduler.job.not_found')
  })

  test('[SCH-090] a cyclic chain is refused, and its failure is not retried', () => {
    const scheduler = aScheduler()
    const { runId, job } = aRun(scheduler)
    const other = must(submitJob(scheduler, { job_type: 'story' }))
    const plant = query<never, { a: string; b: string }>(`update jobs set retry_of = $b where job_id = $a`)
    scheduler.db.write((tx) => {
      scheduler.db.exec('drop trigger jobs_identity_tg')
      tx.run(plant, { a: job.job_id, b: other.job_id })
      tx.run(plant, { a: other.job_id, b: job.job_id })
      return { ok: true, value: undefined }
    })
    assert.equal(codeOf(readRetryChain(scheduler, job.job_id)), 'retry.chain.cycle')
    fail(scheduler, runId)
    assert.equal(must(readJob(scheduler, job.job_id)).run?.retry_decided, 'chain_broken')
    assert.equal(countOf(scheduler, 'jobs'), 2)
  })
})

describe('the policy of a type', () => {
  const plan = (
    policy: Partial<RetryPolicyBody>,
    failed: { exitCode?: number; errorClass?: never; hops?: number } = {},
  ) =>
    decideRetryPlan({
      policy: { ...defaultRetryPolicy, ...policy },
      hops: { ok: true, value: failed.hops ?? 0 },
      errorClass: failed.errorClass ?? 'work_failed',
      exitCode: failed.exitCode ?? null,
      random: () => 0,
    })

  test('[SCH-083] the maximum is a setting: 0 means never', () => {
    assert.equal(plan({ max_retries: 0 }).verdict, 'exhausted')
    assert.equal(plan({ max_retries: 2 }, { hops: 1 }).verdict, 'retry')
    assert.equal(plan({ max_retries: 2 }, { hops: 2 }).verdict, 'exhausted')
  })

  test('[SCH-088] delays: fixed, listed, and growing up to a cap', () => {
    assert.deepEqual(
      [0, 1].map((hops) => plan({ delay: { kind: 'fixed', ms: 500 } }, { hops }).delayMs),
      [500, 500],
    )
    assert.deepEqual(
      [0, 1, 2].map((hops) => plan({ delay: { kind: 'list', ms: [10, 20] } }, { hops }).delayMs),
      [10, 20, 20],
    )
    const delay = { kind: 'exponential', baseMs: 100, factor: 2, capMs: 300 } as const
    assert.deepEqual(
      [0, 1, 2].map((hops) => plan({ delay }, { hops }).delayMs),
      [100, 200, 300],
    )
  })

  test('exit codes and error classes decide which failures are retried', () => {
    assert.equal(plan({ exit_codes: [75] }, { exitCode: 75 }).verdict, 'retry')
    assert.equal(plan({ exit_codes: [75] }, { exitCode: 1 }).verdict, 'not_listed')
    assert.equal(plan({ error_classes: ['timeout'] }).verdict, 'not_listed')
    assert.equal(plan({}, { errorClass: 'validation_error' as never }).verdict, 'not_retryable')
  })

  test('an unreadable policy allows no retry', () => {
    for (const text of ['', '{', '{"max_retries":-1}', '{"extra":1}'])
      assert.equal(readRetryPolicy(text).max_retries, 0)
    assert.deepEqual(readRetryPolicy('{}'), defaultRetryPolicy)
  })

  test('a type with a wrong policy is refused', () => {
    const scheduler = aScheduler()
    for (const retry_policy of [
      { max_retries: 101 },
      { delay: { kind: 'soon' } },
      { delay: { kind: 'fixed', ms: 1e12 } },
      { error_classes: ['x'] },
    ]) {
      assert.equal(registerJobType(scheduler, { job_type: 'story', retry_policy } as never).ok, false)
    }
  })
})

test('[SCH-088] a delayed retry waits for its time and does not delay other jobs', () => {
  const scheduler = withPolicy({ delay: { kind: 'fixed', ms: 60_000 } })
  const failed = aRun(scheduler)
  const [a, b] = [
    must(submitJob(scheduler, { job_type: 'story' })).job_id,
    must(submitJob(scheduler, { job_type: 'story' })).job_id,
  ]
  const { retry } = fail(scheduler, failed.runId)
  assert.deepEqual([retry?.hold, retry?.not_before], ['delay', START + 60_000])
  for (const job of [a, b]) {
    const run = next(scheduler)
    assert.equal(run?.job.job_id, job)
    scheduler.db.write((tx) => ({
      ok: true,
      value: tx.run(query<never, { id: string }>(`update jobs set finished_at = 1 where job_id = $id`), {
        id: job,
      }),
    }))
  }
  assert.deepEqual(must(claimJobs(scheduler)).waiting, { reason: 'empty', until: new Date(START + 60_000) })
  scheduler.clock.by(60_000)
  assert.equal(next(scheduler)?.job.job_id, retry?.job_id)
})

test('[SCH-089] a verdict is final: a higher maximum revives no job, not even after a restart', async () => {
  const file = aFile()
  const first = aScheduler({ file, jobTypes: [{ job_type: 'story', retry_policy: { max_retries: 0 } }] })
  fail(first, aRun(first).runId)
  first.close()
  const second = aScheduler({ file, jobTypes: [{ job_type: 'story', retry_policy: { max_retries: 9 } }] })
  must(await recover(second, { endOrphan: async () => 'gone' }))
  assert.equal(countOf(second, 'jobs'), 1)
  assert.equal(rowsOf(second, 'job_runs')[0]?.['retry_decided'], 'exhausted')
  second.close()
})
