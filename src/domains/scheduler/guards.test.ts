/** Every rule of the file about jobs and their runs, broken once. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { aGroupRow, aJobRow, aRawFile, aRunRow, assertRefused, insertRow, startRow } from '#test/scheduler/raw-file'
import { anId } from '#test/scheduler/fixture'

const { db } = aRawFile()
const OTHER = anId()

describe('columns of jobs that never change', () => {
  for (const [rows, column, value] of [
    ['[SCH-017]', 'job_id', OTHER],
    ['[SCH-018]', 'template_id', OTHER],
    ['[SCH-019]', 'schedule_id', OTHER],
    ['[SCH-020]', 'group_id', OTHER],
    ['[SCH-021]', 'job_type', 'research'],
    ['[SCH-026]', 'retry_of', OTHER],
    ['[SCH-027]', 'created_at', 1],
    ['[SCH-028]', 'queued_at', 1],
    ['', 'group_order', 1],
    ['', 'reservation_id', OTHER],
    ['', 'not_before', 1],
  ] as const) {
    test(`${rows} jobs.${column} never changes, not even while QUEUED`, () => {
      assertRefused(db, `update jobs set ${column} = ? where job_id = ?`, [value, aJobRow(db)], /never changes/)
    })
  }
})

describe('jobs', () => {
  test('[SCH-022] [SCH-006] params change before dispatch and not after', () => {
    const jobId = aJobRow(db)
    db.prepare(`update jobs set params = '{"b":2}' where job_id = ?`).run(jobId)
    startRow(db, jobId)
    assertRefused(db, `update jobs set params = '{}' where job_id = ?`, [jobId], /only while QUEUED/)
  })

  test('[SCH-022] params cannot change in the statement that dispatches', () => {
    assertRefused(
      db,
      `update jobs set status = 'RUNNING', started_at = 1, params = '{}' where job_id = ?`,
      [aJobRow(db)],
      /only while QUEUED/,
    )
  })

  for (const [rows, column] of [
    ['[SCH-024] [SCH-068]', 'priority'],
    ['[SCH-025] [SCH-068]', 'position'],
  ] as const) {
    test(`${rows} ${column} changes only while QUEUED`, () => {
      const jobId = aJobRow(db)
      db.prepare(`update jobs set ${column} = 7 where job_id = ?`).run(jobId)
      assertRefused(db, `update jobs set ${column} = 8 where job_id = ?`, [startRow(db, jobId)], /only while QUEUED/)
      const cancelled = aJobRow(db)
      db.prepare(`update jobs set status = 'CANCELLED', cancelled_at = 1 where job_id = ?`).run(cancelled)
      assertRefused(db, `update jobs set ${column} = 8 where job_id = ?`, [cancelled], /only while QUEUED/)
    })
  }

  test('a hold changes only while QUEUED', () => {
    assertRefused(db, `update jobs set hold = 'delay' where job_id = ?`, [startRow(db, aJobRow(db, { not_before: 5 }))])
  })

  test('[SCH-029] started_at is written once', () => {
    assertRefused(db, `update jobs set started_at = 2 where job_id = ?`, [startRow(db, aJobRow(db))], /written once/)
  })

  test('[SCH-030] finished_at is written once', () => {
    const jobId = startRow(db, aJobRow(db))
    db.prepare('update jobs set finished_at = 5 where job_id = ?').run(jobId)
    for (const value of [6, null])
      assertRefused(db, `update jobs set finished_at = ? where job_id = ?`, [value, jobId], /written once/)
  })

  test('cancelled_at never changes, and worker_id is written once', () => {
    const jobId = aJobRow(db)
    db.prepare(`update jobs set status = 'CANCELLED', cancelled_at = 1, worker_id = 'w' where job_id = ?`).run(jobId)
    assertRefused(db, `update jobs set cancelled_at = 2 where job_id = ?`, [jobId], /written once/)
    assertRefused(db, `update jobs set worker_id = 'v' where job_id = ?`, [jobId], /written once/)
  })

  test('[SCH-006] a dispatched job is never deleted, replaced or made again', () => {
    const jobId = startRow(db, aJobRow(db))
    assertRefused(db, 'delete from jobs where job_id = ?', [jobId], /kept/)
    assertRefused(
      db,
      `insert or replace into jobs (job_id, job_type, params, position, created_at, queued_at) values (?, 'story', '{}', 1, 1, 1)`,
      [jobId],
      /kept/,
    )
  })

  for (const [title, values, message] of [
    ['[SCH-017] a job id that is no UUID', { job_id: 'J1' }, 'CHECK constraint failed: jobs_job_id_ck'],
    [
      '[SCH-017] a job id in upper case',
      { job_id: '0197F3B2-C4D5-7A8E-9B0C-1D2E3F405161' },
      'CHECK constraint failed: jobs_job_id_ck',
    ],
    ['[SCH-021] a job type that is not registered', { job_type: 'poem' }, 'FOREIGN KEY constraint failed'],
    ['[SCH-022] params that are no JSON', { params: '{a:1}' }, 'CHECK constraint failed: jobs_params_ck'],
    ['[SCH-022] params that are no object', { params: '[1]' }, 'CHECK constraint failed: jobs_params_ck'],
    ['[SCH-023] an unknown status', { status: 'PAUSED' }, 'jobs: a job is created QUEUED'],
    ['[SCH-023] a job that is created RUNNING', { status: 'RUNNING', started_at: 1 }, 'jobs: a job is created QUEUED'],
    ['a job that is created CANCELLED', { status: 'CANCELLED', cancelled_at: 1 }, 'jobs: a job is created QUEUED'],
    [
      '[SCH-024] a priority that is no number',
      { priority: 'high' },
      'cannot store TEXT value in INTEGER column jobs.priority',
    ],
    ['[SCH-024] a priority out of range', { priority: 1_000_001 }, 'CHECK constraint failed: jobs_priority_ck'],
    ['[SCH-025] a job without a position', { position: null }, 'NOT NULL constraint failed: jobs.position'],
    ['[SCH-026] a retry of a job that is not there', { retry_of: OTHER }, 'FOREIGN KEY constraint failed'],
    ['[SCH-011] a template that is not there', { template_id: OTHER }, 'FOREIGN KEY constraint failed'],
    ['[SCH-011] a schedule that is not there', { schedule_id: OTHER }, 'FOREIGN KEY constraint failed'],
    ['[SCH-011] a group that is not there', { group_id: OTHER, group_order: 1 }, 'FOREIGN KEY constraint failed'],
    [
      '[SCH-011] a reservation that is not there',
      { reservation_id: OTHER, hold: 'direct' },
      'FOREIGN KEY constraint failed',
    ],
    ['[SCH-027] a job without a time', { created_at: null }, 'NOT NULL constraint failed: jobs.created_at'],
    [
      '[SCH-028] a time that is text',
      { queued_at: '2026-05-01' },
      'cannot store TEXT value in INTEGER column jobs.queued_at',
    ],
    ['a queued job with started_at', { started_at: 1 }, 'CHECK constraint failed: jobs_started_at_ck'],
    ['a queued job with finished_at', { finished_at: 1 }, 'CHECK constraint failed: jobs_finished_at_ck'],
    ['a queued job with cancelled_at', { cancelled_at: 1 }, 'CHECK constraint failed: jobs_cancelled_at_ck'],
    ['a group order without a group', { group_order: 1 }, 'CHECK constraint failed: jobs_group_order_ck'],
    ['an unknown hold', { hold: 'mood' }, 'CHECK constraint failed: jobs_hold_ck'],
    ['a delay without a time', { hold: 'delay' }, 'CHECK constraint failed: jobs_hold_delay_ck'],
    ['a group hold without a group', { hold: 'group' }, 'CHECK constraint failed: jobs_hold_group_ck'],
    ['a direct hold without a reservation', { hold: 'direct' }, 'CHECK constraint failed: jobs_hold_direct_ck'],
  ] as const) {
    test(`${title} is refused`, () => {
      const before = db.prepare('select count(*) as n from jobs').get()
      assert.throws(() => aJobRow(db, values), { message })
      assert.deepEqual(db.prepare('select count(*) as n from jobs').get(), before)
    })
  }

  test('a job is not its own retry, and has at most one', () => {
    const jobId = anId()
    assert.throws(() => aJobRow(db, { job_id: jobId, retry_of: jobId }), /CHECK|FOREIGN/)
  })

  test('[SCH-033] a second retry of the same job is refused', () => {
    const jobId = aJobRow(db)
    aJobRow(db, { retry_of: jobId })
    assert.throws(() => aJobRow(db, { retry_of: jobId }), /UNIQUE/)
  })

  test('[SCH-011] a group with jobs cannot be deleted', () => {
    const groupId = aGroupRow(db)
    aJobRow(db, { group_id: groupId, group_order: 1 })
    assertRefused(db, 'delete from job_groups where group_id = ?', [groupId], /FOREIGN KEY/)
  })
})

describe('job_runs', () => {
  for (const [rows, column, value] of [
    ['[SCH-034]', 'run_id', OTHER],
    ['[SCH-035]', 'job_id', OTHER],
    ['[SCH-037]', 'template_id', OTHER],
    ['[SCH-038]', 'params_snapshot', '{}'],
    ['[SCH-040]', 'started_at', 1],
  ] as const) {
    test(`${rows} job_runs.${column} never changes`, () => {
      assertRefused(db, `update job_runs set ${column} = ? where run_id = ?`, [value, aRunRow(db)], /never changes/)
    })
  }

  const closed = () => {
    const runId = aRunRow(db)
    db.prepare(`update job_runs set status = 'FAILED' where run_id = ?`).run(runId)
    return runId
  }

  for (const [rows, column, first, second] of [
    ['[SCH-041]', 'finished_at', 5, 6],
    ['[SCH-042]', 'exit_code', 0, 1],
    ['[SCH-043]', 'error', 'a', 'b'],
    ['[SCH-089]', 'retry_decided', 'exhausted', 'retry'],
  ] as const) {
    test(`[SCH-007] ${rows} ${column} goes from NULL to a value once, also after the outcome`, () => {
      const runId = closed()
      db.prepare(`update job_runs set ${column} = ? where run_id = ?`).run(first, runId)
      for (const value of [second, null])
        assertRefused(db, `update job_runs set ${column} = ? where run_id = ?`, [value, runId], /written once/)
    })
  }

  test('[SCH-045] log_path is written once, and not after the outcome', () => {
    const open = aRunRow(db)
    db.prepare(`update job_runs set log_path = 'a' where run_id = ?`).run(open)
    assertRefused(db, `update job_runs set log_path = 'b' where run_id = ?`, [open], /written once/)
    assertRefused(db, `update job_runs set log_path = 'a' where run_id = ?`, [closed()], /not set after the outcome/)
  })

  test('the process of a run is written once, whole, and not after the outcome', () => {
    const open = aRunRow(db)
    db.prepare(
      `update job_runs set process_pid = 7, process_started_at = '123', process_boot_id = 'b' where run_id = ?`,
    ).run(open)
    assertRefused(db, `update job_runs set process_pid = 8 where run_id = ?`, [open], /written once/)
    assertRefused(db, `update job_runs set process_boot_id = 'c' where run_id = ?`, [open], /written once/)
    assertRefused(db, `update job_runs set process_pid = 8 where run_id = ?`, [aRunRow(db)], /CHECK/)
    assertRefused(
      db,
      `update job_runs set process_pid = 8, process_started_at = '1' where run_id = ?`,
      [closed()],
      /after the outcome/,
    )
  })

  test('[SCH-044] artifacts are only appended, also after the outcome', () => {
    const runId = closed()
    const set = (artifacts: string) =>
      [`update job_runs set artifacts = ? where run_id = ?`, [artifacts, runId]] as const
    for (const list of ['["a"]', '["a","b"]']) db.prepare(set(list)[0]).run(...set(list)[1])
    for (const list of ['["a"]', '["b","a"]', '["a","c"]', '[]', '["a","b",3]', '["a","b",{}]'])
      assertRefused(db, ...set(list), /appended/)
    for (const list of ['{"0":"a","1":"b"}', 'a,b']) assertRefused(db, ...set(list))
    assert.throws(() => aRunRow(db, { artifacts: '[1]' }), /list of paths/)
  })

  test('[SCH-036] one run per job', () => {
    const jobId = startRow(db, aJobRow(db))
    aRunRow(db, { job_id: jobId })
    assert.throws(() => aRunRow(db, { job_id: jobId }), /UNIQUE/)
  })

  test('[SCH-035] [SCH-120] no run without a job', () => {
    assert.throws(() => aRunRow(db, { job_id: OTHER }), /RUNNING job/)
    db.exec('drop trigger job_runs_created_tg')
    try {
      assert.throws(() => aRunRow(db, { job_id: OTHER }), /FOREIGN KEY/)
    } finally {
      db.exec(createdTrigger)
    }
  })

  test('[SCH-038] a run begins with the params of its job, and its job is RUNNING', () => {
    assert.throws(
      () => aRunRow(db, { job_id: startRow(db, aJobRow(db)), params_snapshot: '{"a":2}' }),
      /with the params/,
    )
    assert.throws(() => aRunRow(db, { job_id: aJobRow(db) }), /RUNNING job/)
  })

  test('[SCH-120] [SCH-007] runs are kept', () =>
    assertRefused(db, 'delete from job_runs where run_id = ?', [aRunRow(db)], /kept/))

  for (const [title, values, message] of [
    ['[SCH-034] a run id that is no UUID', { run_id: '7' }, 'CHECK constraint failed: job_runs_run_id_ck'],
    ['[SCH-035] no job', { job_id: '' }, 'job_runs: a run starts open, for a RUNNING job, with the params of that job'],
    [
      '[SCH-039] a run that is created with an outcome',
      { status: 'COMPLETED' },
      'job_runs: a run starts open, for a RUNNING job, with the params of that job',
    ],
    ['[SCH-040] a run without its start', { started_at: null }, 'NOT NULL constraint failed: job_runs.started_at'],
    ['[SCH-041] an end without an outcome', { finished_at: 5 }, 'CHECK constraint failed: job_runs_finished_at_ck'],
    [
      '[SCH-042] an exit code that is text',
      { exit_code: 'x' },
      'cannot store TEXT value in INTEGER column job_runs.exit_code',
    ],
    [
      '[SCH-089] a verdict without a failure',
      { retry_decided: 'retry' },
      'CHECK constraint failed: job_runs_retry_decided_ck',
    ],
  ] as const) {
    test(`${title} is refused`, () => assert.throws(() => aRunRow(db, values), { message }))
  }

  test('[SCH-039] an outcome that is not in the list is refused', () => {
    assertRefused(db, `update job_runs set status = 'pending' where run_id = ?`, [aRunRow(db)], /CHECK/)
  })

  test('a verdict that is not in the list, or on a run that did not fail, is refused', () => {
    assertRefused(db, `update job_runs set retry_decided = 'maybe' where run_id = ?`, [closed()], /CHECK/)
    const runId = aRunRow(db)
    db.prepare(`update job_runs set status = 'COMPLETED' where run_id = ?`).run(runId)
    assertRefused(db, `update job_runs set retry_decided = 'exhausted' where run_id = ?`, [runId], /CHECK/)
  })
})

const { sql: createdTrigger } = db
  .prepare(`select sql from sqlite_schema where name = 'job_runs_created_tg'`)
  .get() as { sql: string }

test('a job type needs a name and readable rules', () => {
  const row = { job_type: 'poem', retry_policy: '{}', created_at: 1, updated_at: 1 }
  for (const values of [
    { job_type: 'Poem' },
    { job_type: 'a b' },
    { retry_policy: '[]' },
    { concurrency_limit: 0 },
    { runner: '1' },
  ]) {
    assert.throws(() => insertRow(db, 'job_types', { ...row, ...values }), /CHECK/)
  }
})
