/** Groups: sequential or parallel, and what the failure of one member means for the others. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { aScheduler, codeOf, countOf, fail, must, rowsOf, START, type TestScheduler } from '#test/scheduler/fixture'
import { cancelJob } from './change-job.ts'
import { checkInvariants } from './check-invariants.ts'
import { claimJobs } from './claim-next.ts'
import { finishRun } from './finish-run.ts'
import { groupStatusOf, readGroup } from './job-group.ts'
import { listQueue, readJob } from './job-views.ts'
import { submitGroup, submitJob } from './submit-job.ts'

type Rule = 'stop' | 'continue' | 'skip'

function aGroup(scheduler: TestScheduler, mode: 'parallel' | 'sequential', on_failure: Rule = 'stop', size = 3) {
  const { group, jobs } = must(
    submitGroup(scheduler, { mode, on_failure, jobs: Array.from({ length: size }, () => ({ job_type: 'story' })) }),
  )
  return { groupId: group.group_id, ids: jobs.map((job) => job.job_id) }
}
const once = { jobTypes: [{ job_type: 'story', retry_policy: { max_retries: 0 } }] }
const claim = (scheduler: TestScheduler, max = 9) => must(claimJobs(scheduler, max)).runs
const done = (scheduler: TestScheduler, runId = '') => must(finishRun(scheduler, runId, { outcome: 'completed' }))
const statusOf = (scheduler: TestScheduler, groupId: string) => must(readGroup(scheduler, groupId)).status

describe('sequential', () => {
  test('[SCH-127] one member at a time, in the order they were given, whatever the workers', () => {
    const scheduler = aScheduler({ settings: { workers: 5 } })
    const { groupId, ids } = aGroup(scheduler, 'sequential')
    assert.equal(statusOf(scheduler, groupId), 'queued')
    for (const id of ids) {
      const runs = claim(scheduler)
      assert.deepEqual(
        runs.map((run) => run.job.job_id),
        [id],
      )
      assert.equal(statusOf(scheduler, groupId), 'running')
      assert.deepEqual(claim(scheduler), [])
      done(scheduler, runs[0]?.runId)
    }
    assert.equal(statusOf(scheduler, groupId), 'completed')
    assert.deepEqual(
      { ...must(readGroup(scheduler, groupId)).counts },
      { queued: 0, in_flight: 0, completed: 3, skipped: 0, failed: 0, retried: 0, cancelled: 0 },
    )
  })

  test('[SCH-127] jobs outside the group keep their places between its members', () => {
    const scheduler = aScheduler()
    const { ids } = aGroup(scheduler, 'sequential', 'stop', 2)
    const outside = must(submitJob(scheduler, { job_type: 'story' })).job_id
    const order: string[] = []
    for (let run = claim(scheduler)[0]; run; run = claim(scheduler)[0]) {
      order.push(run.job.job_id)
      done(scheduler, run.runId)
    }
    assert.deepEqual(order, [...ids, outside])
  })

  test('the next member waits for the retries of its predecessor', () => {
    const scheduler = aScheduler({
      jobTypes: [{ job_type: 'story', retry_policy: { max_retries: 1, delay: { kind: 'fixed', ms: 1_000 } } }],
    })
    const { ids } = aGroup(scheduler, 'sequential', 'continue', 2)
    const { retry } = fail(scheduler, claim(scheduler)[0]?.runId ?? '')
    assert.deepEqual([retry?.group_id !== null, retry?.group_order], [true, 1])
    assert.deepEqual(claim(scheduler), [])
    scheduler.clock.by(1_000)
    const [again] = claim(scheduler)
    assert.equal(again?.job.job_id, retry?.job_id)
    fail(scheduler, again?.runId ?? '')
    assert.deepEqual(
      claim(scheduler).map((run) => run.job.job_id),
      [ids[1]],
    )
  })

  test('a cancelled member releases the next one', () => {
    const scheduler = aScheduler()
    const { ids } = aGroup(scheduler, 'sequential')
    must(cancelJob(scheduler, ids[0] ?? ''))
    assert.deepEqual(
      claim(scheduler).map((run) => run.job.job_id),
      [ids[1]],
    )
    must(cancelJob(scheduler, ids[2] ?? ''))
  })

  test('a delayed member waits for its turn and for its time', () => {
    const scheduler = aScheduler()
    const { jobs } = must(
      submitGroup(scheduler, {
        mode: 'sequential',
        jobs: [{ job_type: 'story' }, { job_type: 'story', not_before: new Date(START + 9_000).toISOString() }],
      }),
    )
    assert.equal(jobs[1]?.hold, 'group')
    done(scheduler, claim(scheduler)[0]?.runId)
    assert.equal(must(readJob(scheduler, jobs[1]?.job_id ?? '')).job.hold, 'delay')
    assert.deepEqual(claim(scheduler), [])
    scheduler.clock.by(9_000)
    assert.deepEqual(
      claim(scheduler).map((run) => run.job.job_id),
      [jobs[1]?.job_id],
    )
  })

  test('a job that joins later comes last, or starts when the group is idle', () => {
    const scheduler = aScheduler()
    const { groupId, ids } = aGroup(scheduler, 'sequential', 'stop', 1)
    const late = must(submitJob(scheduler, { job_type: 'story', group_id: groupId }))
    assert.deepEqual([late.hold, late.group_order], ['group', 2])
    done(scheduler, claim(scheduler)[0]?.runId)
    done(scheduler, claim(scheduler)[0]?.runId)
    assert.equal(must(submitJob(scheduler, { job_type: 'story', group_id: groupId })).hold, null)
    assert.equal(ids.length, 1)
  })
})

describe('parallel', () => {
  test('[SCH-127] all members are in the queue from the start', () => {
    const scheduler = aScheduler({ settings: { workers: 2 } })
    const { ids, groupId } = aGroup(scheduler, 'parallel')
    const runs = claim(scheduler)
    assert.deepEqual(
      runs.map((run) => run.job.job_id),
      ids.slice(0, 2),
    )
    for (const run of runs) done(scheduler, run.runId)
    done(scheduler, claim(scheduler)[0]?.runId)
    assert.equal(statusOf(scheduler, groupId), 'completed')
  })
})

describe('the failure of a member', () => {
  for (const mode of ['parallel', 'sequential'] as const) {
    test(`[SCH-127] ${mode}, stop: queued members are cancelled with a notification, and the group takes no more jobs`, () => {
      const scheduler = aScheduler(once)
      const { groupId, ids } = aGroup(scheduler, mode, 'stop')
      fail(scheduler, claim(scheduler, 1)[0]?.runId ?? '')
      assert.deepEqual(
        ids.slice(1).map((id) => must(readJob(scheduler, id)).job.status),
        ['CANCELLED', 'CANCELLED'],
      )
      assert.equal(statusOf(scheduler, groupId), 'failed')
      assert.equal(codeOf(submitJob(scheduler, { job_type: 'story', group_id: groupId })), 'scheduler.group.halted')
      assert.equal(rowsOf(scheduler, 'notifications').filter((row) => row['kind'] === 'job_cancelled').length, 2)
    })

    test(`[SCH-127] [SCH-072] ${mode}, skip: queued members get a SKIPPED run`, () => {
      const scheduler = aScheduler(once)
      const { groupId, ids } = aGroup(scheduler, mode, 'skip')
      fail(scheduler, claim(scheduler, 1)[0]?.runId ?? '')
      const reports = ids.slice(1).map((id) => must(readJob(scheduler, id)))
      assert.deepEqual(
        reports.map(({ job, run }) => [job.status, job.finished_at, run?.status]),
        [1, 2].map(() => ['RUNNING', START, 'SKIPPED']),
      )
      assert.equal(statusOf(scheduler, groupId), 'failed')
      assert.deepEqual(must(checkInvariants(scheduler)).violations, [])
    })

    test(`[SCH-127] ${mode}, continue: the other members continue`, () => {
      const scheduler = aScheduler(once)
      const { groupId, ids } = aGroup(scheduler, mode, 'continue')
      fail(scheduler, claim(scheduler, 1)[0]?.runId ?? '')
      for (const id of ids.slice(1)) {
        const [run] = claim(scheduler, 1)
        assert.equal(run?.job.job_id, id)
        done(scheduler, run?.runId)
      }
      assert.equal(statusOf(scheduler, groupId), 'failed')
    })
  }

  test('members in flight continue, and their failures are not retried', () => {
    const scheduler = aScheduler({
      settings: { workers: 2 },
      jobTypes: [{ job_type: 'story', retry_policy: { exit_codes: [1] } }],
    })
    aGroup(scheduler, 'parallel', 'stop')
    const [one, two] = claim(scheduler)
    fail(scheduler, one?.runId ?? '', { exitCode: 2 })
    assert.equal(fail(scheduler, two?.runId ?? '', { exitCode: 1 }).run.retry_decided, 'group_halted')
    assert.equal(countOf(scheduler, 'jobs'), 3)
  })

  test('a failure with a retry does not halt the group', () => {
    const scheduler = aScheduler()
    const { groupId } = aGroup(scheduler, 'parallel', 'stop')
    fail(scheduler, claim(scheduler)[0]?.runId ?? '')
    assert.equal(must(readGroup(scheduler, groupId)).group.halted_at, null)
    assert.equal(must(listQueue(scheduler)).jobs.length, 3)
  })
})

test('a group is stored whole or not at all, and the refusal names the invalid member', () => {
  const scheduler = aScheduler()
  const refused = submitGroup(scheduler, { mode: 'parallel', jobs: [{ job_type: 'story' }, { job_type: 'poem' }] })
  assert.deepEqual(
    [codeOf(refused), refused.ok ? '' : refused.path],
    ['scheduler.job_type.unknown', 'jobs[1].job_type'],
  )
  assert.equal(countOf(scheduler, 'jobs'), 0)
  assert.equal(codeOf(submitGroup(scheduler, { mode: 'parallel', jobs: [] })), 'api.field.value')
  assert.equal(codeOf(readGroup(scheduler, 'nobody')), 'scheduler.group.not_found')
})

test('[SCH-127] the status of a group is computed from its members', () => {
  const none = { queued: 0, in_flight: 0, completed: 0, skipped: 0, failed: 0, retried: 0, cancelled: 0 }
  for (const [counts, status] of [
    [{ queued: 2 }, 'queued'],
    [{ queued: 1, completed: 1 }, 'running'],
    [{ queued: 1, retried: 1 }, 'running'],
    [{ in_flight: 1 }, 'running'],
    [{ completed: 2, retried: 1 }, 'completed'],
    [{ completed: 1, skipped: 1 }, 'completed'],
    [{ completed: 1, failed: 1, cancelled: 1 }, 'failed'],
    [{ completed: 1, cancelled: 1 }, 'cancelled'],
  ] as const) {
    assert.equal(groupStatusOf({ ...none, ...counts }), status)
  }
})
