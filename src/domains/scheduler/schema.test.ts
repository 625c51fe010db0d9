/** Compares the tables of a migrated file, column by column, with the list in this test. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { aRawFile } from '#test/scheduler/raw-file'

const { db } = aRawFile()

type Column = { name: string; type: string; notnull: number; dflt_value: string | null; pk: number }

/** `name type [not null] [pk] [= default]` */
function columnsOf(table: string): string[] {
  const rows = db
    .prepare(`select name, type, "notnull", dflt_value, pk from pragma_table_info(?)`)
    .all(table) as Column[]
  return rows.map(({ name, type, notnull, dflt_value, pk }) =>
    [name, type.toLowerCase(), notnull ? 'not null' : '', pk ? 'pk' : '', dflt_value === null ? '' : `= ${dflt_value}`]
      .filter(Boolean)
      .join(' '),
  )
}

describe('columns', () => {
  for (const [rows, table, columns] of [
    [
      '[SCH-009] [SCH-017] [SCH-018] [SCH-019] [SCH-020] [SCH-021] [SCH-022] [SCH-023] [SCH-024] [SCH-025] [SCH-026] [SCH-027] [SCH-028] [SCH-029] [SCH-030] [SCH-031]',
      'jobs',
      [
        'job_id text not null pk',
        'template_id text',
        'schedule_id text',
        'group_id text',
        'job_type text not null',
        'params text not null',
        `status text not null = 'QUEUED'`,
        'priority integer not null = 0',
        'position integer not null',
        'retry_of text',
        'created_at integer not null',
        'queued_at integer not null',
        'started_at integer',
        'finished_at integer',
        'worker_id text',
        'group_order integer',
        'reservation_id text',
        'hold text',
        'not_before integer',
        'cancelled_at integer',
        'requested_by text',
      ],
    ],
    [
      '[SCH-009] [SCH-034] [SCH-035] [SCH-037] [SCH-038] [SCH-039] [SCH-040] [SCH-041] [SCH-042] [SCH-043] [SCH-044] [SCH-045]',
      'job_runs',
      [
        'run_id text not null pk',
        'job_id text not null',
        'template_id text',
        'params_snapshot text not null',
        'status text',
        'started_at integer not null',
        'finished_at integer',
        'exit_code integer',
        'error text',
        `artifacts text not null = '[]'`,
        'log_path text',
        'error_class text',
        'retry_decided text',
        'process_pid integer',
        'process_started_at text',
        'process_boot_id text',
      ],
    ],
    [
      '[SCH-009] [SCH-046] [SCH-047] [SCH-048] [SCH-049] [SCH-050] [SCH-051] [SCH-052] [SCH-053] [SCH-054] [SCH-055]',
      'schedules',
      [
        'schedule_id text not null pk',
        'template_id text not null',
        'name text not null',
        'cron_expression text not null',
        `timezone text not null = 'UTC'`,
        'enabled integer not null = 1',
        'param_overrides text',
        'last_triggered_at integer',
        'next_trigger_at integer',
        'created_at integer not null',
        'priority integer',
        `misfire_policy text not null = 'last'`,
        `overlap_policy text not null = 'queue'`,
        'last_due_at integer',
        'updated_at integer not null',
        'deleted_at integer',
        'requested_by text',
      ],
    ],
    [
      '[SCH-009] [SCH-056]',
      'job_templates',
      [
        'template_id text not null pk',
        'name text not null',
        'job_type text not null',
        `params text not null = '{}'`,
        'params_schema text',
        'priority integer not null = 0',
        'created_at integer not null',
        'updated_at integer not null',
        'archived_at integer',
      ],
    ],
    [
      '[SCH-009] [SCH-057] [SCH-058] [SCH-059] [SCH-060] [SCH-061]',
      'direct_reservations',
      [
        'reservation_id text not null pk',
        'reserved_at integer not null',
        'reserved_by text not null',
        `status text not null = 'ACTIVE'`,
        'expires_at integer not null',
        'renewed_at integer',
        'ended_at integer',
      ],
    ],
    [
      '[SCH-127]',
      'job_groups',
      [
        'group_id text not null pk',
        'name text',
        'mode text not null',
        'on_failure text not null',
        'created_at integer not null',
        'halted_at integer',
      ],
    ],
  ] as const) {
    test(`${rows} the columns of ${table}`, () => assert.deepEqual(columnsOf(table), columns))
  }

  test('[SCH-084] there is no table of retries; the tables are these', () => {
    const tables = db
      .prepare(`select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by name`)
      .all()
    assert.deepEqual(
      tables.map((row) => row['name']),
      [
        'direct_reservations',
        'job_groups',
        'job_keys',
        'job_runs',
        'job_templates',
        'job_types',
        'jobs',
        'notifications',
        'schedule_firings',
        'scheduler_migrations',
        'scheduler_owner',
        'schedules',
      ],
    )
  })
})

describe('references and indexes', () => {
  for (const [rows, table, references] of [
    [
      '[SCH-026] [SCH-047]',
      'jobs',
      [
        'group_id → job_groups',
        'job_type → job_types',
        'reservation_id → direct_reservations',
        'retry_of → jobs',
        'schedule_id → schedules',
        'template_id → job_templates',
      ],
    ],
    ['[SCH-035] [SCH-120]', 'job_runs', ['job_id → jobs']],
    ['[SCH-047]', 'schedules', ['template_id → job_templates']],
  ] as const) {
    test(`${rows} the references of ${table}`, () => {
      const found = db
        .prepare(`select "from" || ' → ' || "table" as it from pragma_foreign_key_list(?) order by 1`)
        .all(table)
      assert.deepEqual(
        found.map((row) => row['it']),
        references,
      )
    })
  }

  for (const [rows, index, text] of [
    [
      '[SCH-032]',
      'jobs_queue_ix',
      `on jobs (status, priority desc, position, created_at, job_id) where status = 'QUEUED' and hold is null`,
    ],
    [
      '[SCH-032]',
      'jobs_held_ix',
      `on jobs (status, priority desc, position, created_at, job_id) where status = 'QUEUED' and hold is not null`,
    ],
    ['[SCH-032]', 'jobs_in_flight_ix', `on jobs (job_id) where status = 'RUNNING' and finished_at is null`],
    ['[SCH-032]', 'jobs_schedule_ix', 'on jobs (schedule_id) where schedule_id is not null'],
    ['[SCH-032]', 'jobs_template_ix', 'on jobs (template_id) where template_id is not null'],
    ['[SCH-033]', 'jobs_retry_of_uq', 'on jobs (retry_of) where retry_of is not null'],
    ['[SCH-036]', 'job_runs_job_uq', 'on job_runs (job_id)'],
    ['[SCH-062]', 'direct_reservations_active_uq', `on direct_reservations (status) where status = 'ACTIVE'`],
  ] as const) {
    test(`${rows} ${index}`, () => {
      const { sql = '' } = (db.prepare(`select sql from sqlite_schema where name = ?`).get(index) ?? {}) as {
        sql?: string
      }
      assert.equal(sql.replace(/^create (unique )?index \w+ /i, ''), text)
      assert.equal(/unique/i.test(sql), index.endsWith('_uq'))
    })
  }

  const planOf = (sql: string) =>
    db
      .prepare(`explain query plan ${sql}`)
      .all()
      .map((row) => row['detail'])
      .join('; ')

  test('[SCH-032] the next job is read from the queue index without sorting', () => {
    const plan = planOf(
      `select job_id from jobs where status = 'QUEUED' and hold is null order by priority desc, position, created_at, job_id limit 1`,
    )
    assert.match(plan, /jobs_queue_ix/)
    assert.doesNotMatch(plan, /TEMP B-TREE|SCAN/)
  })

  test('[SCH-032] jobs in flight, of a schedule and of a template are found by their indexes', () => {
    assert.match(
      planOf(`select job_id from jobs where status = 'RUNNING' and finished_at is null`),
      /jobs_in_flight_ix/,
    )
    assert.match(planOf(`select job_id from jobs where schedule_id = 'x'`), /jobs_schedule_ix/)
    assert.match(planOf(`select job_id from jobs where template_id = 'x'`), /jobs_template_ix/)
  })
})
