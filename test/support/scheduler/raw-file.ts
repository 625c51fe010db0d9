/** A migrated scheduler file without the services, for statements that the file itself must refuse. */
import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { aFile, anId, must, openTest, START } from './fixture.ts'

export type RawFile = { readonly db: DatabaseSync; readonly file: string }

export function aRawFile(): RawFile {
  const file = aFile()
  must(openTest({ file })).close()
  return { file, db: openRaw(file) }
}

export function openRaw(file: string): DatabaseSync {
  const db = new DatabaseSync(file)
  db.exec('pragma foreign_keys = on; pragma recursive_triggers = on')
  return db
}

type Values = Readonly<Record<string, string | number | null>>

export function insertRow(db: DatabaseSync, table: string, values: Values): void {
  const names = Object.keys(values)
  db.prepare(`insert into ${table} (${names.join(', ')}) values (${names.map(() => '?').join(', ')})`).run(
    ...Object.values(values),
  )
}

let position = 0
/** Inserts a job, QUEUED unless the values say otherwise. */
export function aJobRow(db: DatabaseSync, values: Values = {}): string {
  position += 100
  const row = {
    job_id: anId(),
    job_type: 'story',
    params: '{"a":1}',
    position,
    created_at: START,
    queued_at: START,
    ...values,
  }
  insertRow(db, 'jobs', row)
  return row.job_id
}

export function startRow(db: DatabaseSync, jobId: string): string {
  db.prepare(`update jobs set status = 'RUNNING', started_at = ? where job_id = ?`).run(START, jobId)
  return jobId
}

export function aRunRow(db: DatabaseSync, values: Values = {}): string {
  const row = {
    run_id: anId(),
    job_id: values['job_id'] ?? startRow(db, aJobRow(db)),
    params_snapshot: '{"a":1}',
    started_at: START,
    ...values,
  }
  insertRow(db, 'job_runs', row)
  return row.run_id
}

export function aReservationRow(db: DatabaseSync, values: Values = {}): string {
  const row = { reservation_id: anId(), reserved_at: START, reserved_by: 'test', expires_at: START + 60_000, ...values }
  insertRow(db, 'direct_reservations', row)
  return row.reservation_id
}

export function aTemplateRow(db: DatabaseSync, values: Values = {}): string {
  const template_id = anId()
  insertRow(db, 'job_templates', {
    template_id,
    name: template_id,
    job_type: 'story',
    created_at: START,
    updated_at: START,
    ...values,
  })
  return template_id
}

export function aScheduleRow(db: DatabaseSync, values: Values = {}): string {
  const schedule_id = anId()
  const template_id = values['template_id'] ?? aTemplateRow(db)
  const row = {
    schedule_id,
    template_id,
    name: schedule_id,
    cron_expression: '0 3 * * *',
    created_at: START,
    updated_at: START,
  }
  insertRow(db, 'schedules', { ...row, ...values })
  return schedule_id
}

export function aGroupRow(db: DatabaseSync, values: Values = {}): string {
  const group_id = anId()
  insertRow(db, 'job_groups', { group_id, mode: 'parallel', on_failure: 'stop', created_at: START, ...values })
  return group_id
}

/** Expects the refusal of the statement and no change. */
export function assertRefused(
  db: DatabaseSync,
  sql: string,
  params: readonly (string | number | null)[] = [],
  message?: RegExp,
): void {
  const before = db.prepare('select total_changes() as n').get()
  assert.throws(
    () => db.prepare(sql).run(...params),
    message ??
      /constraint|CHECK|FOREIGN KEY|UNIQUE|NOT NULL|datatype|only|never|once|kept|appended|starts|malformed|cannot/i,
  )
  assert.deepEqual(db.prepare('select total_changes() as n').get(), before)
}
