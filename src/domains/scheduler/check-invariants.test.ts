/** The self-check finds every violation that is planted, and nothing in a sound file. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { checkInvariants, describeSelfCheck } from './check-invariants.ts'
import { claimJobs } from './claim-next.ts'
import { finishRun } from './finish-run.ts'
import { recover } from './recover.ts'
import { releaseReservation, reserve } from './reservations.ts'
import {
  aFile,
  anId,
  aRun,
  aScheduler,
  countOf,
  fail,
  must,
  openTest,
  type TestScheduler,
} from '#test/scheduler/fixture'
import { startDirectJob } from './direct-job.ts'
import { openRaw } from '#test/scheduler/raw-file'
import { submitJob } from './submit-job.ts'

/** A file with a bit of everything. */
function aBusyFile(file = aFile()): TestScheduler {
  const scheduler = aScheduler({ file })
  must(finishRun(scheduler, aRun(scheduler).runId, { outcome: 'completed' }))
  scheduler.clock.by(10)
  fail(scheduler, aRun(scheduler).runId)
  scheduler.clock.by(10)
  const { reservation_id } = must(reserve(scheduler, { reserved_by: 'x' }))
  scheduler.clock.by(10)
  must(
    finishRun(scheduler, must(startDirectJob(scheduler, reservation_id, { job_type: 'research' })).runId, {
      outcome: 'completed',
    }),
  )
  scheduler.clock.by(10)
  must(releaseReservation(scheduler, reservation_id))
  for (let count = 0; count < 3; count++) must(submitJob(scheduler, { job_type: 'story' }))
  return scheduler
}

/** Drops everything that prevents the violation first, and restores what is still possible. */
function plant(scheduler: TestScheduler, sql: string): void {
  const raw = openRaw(scheduler.db.file)
  raw.exec('pragma foreign_keys = off; pragma ignore_check_constraints = on')
  const inTheWay = raw
    .prepare(
      `select type, name, sql from sqlite_schema where type = 'trigger' or (type = 'index' and name like '%_uq')`,
    )
    .all()
  for (const { type, name } of inTheWay) raw.exec(`drop ${String(type)} ${String(name)}`)
  raw.exec(sql)
  for (const guard of inTheWay) {
    try {
      raw.exec(String(guard['sql']))
    } catch {
      // The planted violation prevents this one.
    }
  }
  raw.close()
}

const found = (scheduler: TestScheduler, executions?: Parameters<typeof checkInvariants>[1]) =>
  must(checkInvariants(scheduler, executions)).violations.map(({ invariant }) => invariant)

describe('a planted violation is found', () => {
  const uuid = anId()
  for (const [invariant, sql] of [
    [
      'S01',
      `update jobs set status = 'RUNNING', started_at = 1, finished_at = 2 where job_id = (select max(job_id) from jobs where status = 'QUEUED')`,
    ],
    [
      'S02',
      `update job_runs set job_id = '${uuid}' where run_id = (select min(run_id) from job_runs); update jobs set status = 'QUEUED', started_at = null, finished_at = null, priority = 99 where job_id not in (select job_id from job_runs) and status = 'RUNNING'`,
    ],
    [
      'S03',
      `insert into job_runs (run_id, job_id, params_snapshot, status, started_at, finished_at) select '${uuid}', job_id, params_snapshot, 'COMPLETED', 0, 1 from job_runs limit 1`,
    ],
    [
      'S04',
      `insert into direct_reservations (reservation_id, reserved_at, reserved_by, expires_at) values ('${anId()}', 1, 'a', 2), ('${anId()}', 1, 'b', 2)`,
    ],
    [
      'S05',
      `insert into jobs (job_id, job_type, params, position, created_at, queued_at, retry_of) select '${uuid}', 'story', '{}', 9999, 1, 1, retry_of from jobs where retry_of is not null`,
    ],
    [
      'S06',
      `update jobs set finished_at = null where job_id = (select min(job_id) from job_runs where status = 'COMPLETED')`,
    ],
    ['S07', `update job_runs set params_snapshot = '{"other":1}' where run_id = (select min(run_id) from job_runs)`],
    ['S08', `update jobs set position = 100, priority = 0 where status = 'QUEUED'`],
    ['S09', `update job_runs set status = 'COMPLETED' where status = 'FAILED'`],
    [
      'S12',
      `update job_runs set started_at = (select reserved_at + 1 from direct_reservations) where job_id = (select min(job_id) from jobs)`,
    ],
    ['S13', `update job_runs set retry_decided = 'exhausted' where status = 'FAILED'`],
    [
      'S14',
      `update jobs set retry_of = (select job_id from jobs j where j.retry_of is not null limit 1) where job_id = (select retry_of from jobs where retry_of is not null limit 1)`,
    ],
  ] as const) {
    test(`[SCH-124] ${invariant}`, () => {
      const scheduler = aBusyFile()
      assert.deepEqual(found(scheduler), [])
      plant(scheduler, sql)
      assert.ok(found(scheduler).includes(invariant), `${invariant} was not found, only ${found(scheduler).join()}`)
      scheduler.close()
    })
  }

  test('[SCH-124] S10 and S11 use the log that the jobs wrote', () => {
    const scheduler = aBusyFile()
    const [run] = must(claimJobs(scheduler)).runs
    const good = { jobId: run?.job.job_id ?? '', runId: run?.runId ?? '' }
    assert.deepEqual(found(scheduler, [good]), [])
    assert.deepEqual(found(scheduler, [good, { jobId: 'j', runId: 'nobody' }]), ['S10'])
    assert.deepEqual(found(scheduler, [good, good]), ['S11'])
    assert.deepEqual(must(checkInvariants(scheduler)).not_checked, ['S10', 'S11'])
    scheduler.close()
  })

  test('[SCH-120] an orphan run is reported by the foreign keys as well, and nothing is deleted', async () => {
    const scheduler = aBusyFile()
    plant(scheduler, `update job_runs set job_id = '${uuid}' where run_id = (select min(run_id) from job_runs)`)
    assert.ok(found(scheduler).includes('foreign_key'))
    const before = countOf(scheduler, 'job_runs')
    must(await recover(scheduler, { endOrphan: async () => 'gone' }))
    assert.equal(countOf(scheduler, 'job_runs'), before)
    scheduler.close()
  })
})

test('a dropped guard is reported', () => {
  const scheduler = aBusyFile()
  const raw = openRaw(scheduler.db.file)
  raw.exec('drop trigger jobs_moves_tg')
  raw.close()
  const { violations } = must(checkInvariants(scheduler))
  assert.deepEqual(
    violations.map(({ invariant, about }) => [invariant, about]),
    [['schema', ['jobs_moves_tg']]],
  )
  scheduler.close()
})

test('[SCH-124] the report names the invariant, its rule and the rows', () => {
  const scheduler = aBusyFile()
  assert.equal(
    describeSelfCheck(must(checkInvariants(scheduler))),
    '16 checks, 0 broken, S10 and S11 need the log of the jobs',
  )
  plant(scheduler, `update jobs set position = 100, priority = 0 where status = 'QUEUED'`)
  assert.match(
    describeSelfCheck(must(checkInvariants(scheduler))),
    /^S08 broken: no two queued jobs at one position \(1\): /,
  )
  scheduler.close()
})

test('recovery of planted rows ends, repairs what the matrix repairs, and reports the rest', async () => {
  const file = aFile()
  const first = aBusyFile(file)
  plant(
    first,
    `update jobs set status = 'RUNNING', started_at = 1 where job_id = (select max(job_id) from jobs where status = 'QUEUED');
     insert into direct_reservations (reservation_id, reserved_at, reserved_by, expires_at) values ('${anId()}', 1, 'a', 2), ('${anId()}', 1, 'b', 9e15);
     update jobs set retry_of = (select job_id from jobs j where j.retry_of is not null limit 1) where job_id = (select retry_of from jobs where retry_of is not null limit 1)`,
  )
  first.close()
  const second = must(openTest({ file }))
  must(await recover(second, { endOrphan: async () => 'gone' }))
  assert.deepEqual(
    found(second).filter((id) => ['S01', 'S04', 'S06'].includes(id)),
    [],
  )
  assert.ok(found(second).includes('S14'))
  assert.equal(must(claimJobs(second)).waiting?.reason, 'reserved')
  second.close()
})
