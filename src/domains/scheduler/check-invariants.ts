/** The self-check: runs one query per invariant, each of which must return no rows. Changes nothing. */
import type { Decision } from '#kernel/refusal'
import { IN_MEMORY, openDatabase, type Reader, statement } from './database.ts'
import { migrate } from './migrate.ts'
import type { Scheduler } from './scheduler.ts'

type Found = { readonly about: string }
const check = (name: string, text: string) => statement<Found>(name, text)

const invariantQueries = {
  S01: {
    says: 'no RUNNING job without a run',
    query: check(
      's01',
      `select j.job_id as about from jobs j left join job_runs r on r.job_id = j.job_id where j.status = 'RUNNING' and r.run_id is null`,
    ),
  },
  S02: {
    says: 'no run without a job',
    query: check(
      's02',
      `select r.run_id as about from job_runs r left join jobs j on j.job_id = r.job_id where j.job_id is null`,
    ),
  },
  S03: {
    says: 'no job with two runs',
    query: check('s03', `select job_id as about from job_runs group by job_id having count(*) > 1`),
  },
  S04: {
    says: 'at most one ACTIVE reservation',
    query: check(
      's04',
      `select reservation_id as about from direct_reservations where status = 'ACTIVE'
      and (select count(*) from direct_reservations where status = 'ACTIVE') > 1`,
    ),
  },
  S05: {
    says: 'at most one retry of a job',
    query: check(
      's05',
      `select retry_of as about from jobs where retry_of is not null group by retry_of having count(*) > 1`,
    ),
  },
  S06: {
    says: 'a run has an outcome if and only if its job has finished',
    query: check(
      's06',
      `select j.job_id as about from jobs j join job_runs r on r.job_id = j.job_id where (r.status is not null) <> (j.finished_at is not null)`,
    ),
  },
  S07: {
    says: 'a run holds the params of its job',
    query: check(
      's07',
      `select j.job_id as about from jobs j join job_runs r on r.job_id = j.job_id where json(j.params) <> json(r.params_snapshot)`,
    ),
  },
  S08: {
    says: 'no two queued jobs in one place',
    query: check(
      's08',
      `select group_concat(job_id, ' ') as about from jobs where status = 'QUEUED' group by priority, position having count(*) > 1`,
    ),
  },
  S09: {
    says: 'only a failed job is retried',
    query: check(
      's09',
      `select c.job_id as about from jobs c join job_runs r on r.job_id = c.retry_of where r.status is not 'FAILED'`,
    ),
  },
  S12: {
    says: 'no job of the queue started beside a reservation',
    query: check(
      's12',
      `select r.run_id as about from job_runs r join jobs j on j.job_id = r.job_id
      join direct_reservations d on r.started_at > d.reserved_at and r.started_at < coalesce(d.ended_at, d.expires_at)
      where j.reservation_id is not d.reservation_id`,
    ),
  },
  S13: {
    says: 'a retry follows exactly where it was decided',
    query: check(
      's13',
      `select r.job_id as about from job_runs r left join jobs c on c.retry_of = r.job_id
      where r.status = 'FAILED' and (r.retry_decided is 'retry') <> (c.job_id is not null)`,
    ),
  },
  S14: {
    says: 'no retry chain leads back into itself',
    query: check(
      's14',
      `with recursive up (start, at, hops) as (
        select job_id, retry_of, 1 from jobs where retry_of is not null
        union all select start, jobs.retry_of, hops + 1 from up join jobs on jobs.job_id = up.at
         where up.at is not null and up.at <> up.start and hops < 1000)
      select distinct start as about from up where at = start`,
    ),
  },
  S15: {
    says: 'a due time of a schedule made at most one job',
    query: check(
      's15',
      `select schedule_id || ' ' || due_at as about from schedule_firings group by schedule_id, due_at having count(*) > 1`,
    ),
  },
} as const

type InvariantId = keyof typeof invariantQueries

/** The two checks that need the execution log of the jobs: a JSON list of `{ jobId, runId }`. */
const checkLog = (name: string, text: string) => statement<Found, { executions: string }>(name, text)

const executionQueries = {
  S10: {
    says: 'nothing was executed outside a run',
    query: checkLog(
      's10',
      `select e.value ->> 'jobId' as about from json_each($executions) e
      left join job_runs r on r.run_id = e.value ->> 'runId' where r.run_id is null`,
    ),
  },
  S11: {
    says: 'nothing was executed twice',
    query: checkLog(
      's11',
      `select value ->> 'jobId' as about from json_each($executions) group by 1 having count(*) > 1`,
    ),
  },
} as const

type ExecutionInvariantId = keyof typeof executionQueries

const integrityCheck = statement<{ integrity_check: string }>('integrity_check', `pragma integrity_check(20)`)
const foreignKeyCheck = statement<{ table: string; rowid: number; parent: string }>(
  'foreign_key_check',
  `pragma foreign_key_check`,
)
const listSchema = statement<{ name: string; sql: string }>(
  'list_schema',
  `select name, sql from sqlite_schema where sql is not null order by name`,
)

export type Violation = {
  readonly invariant: InvariantId | ExecutionInvariantId | 'integrity' | 'foreign_key' | 'schema'
  readonly says: string
  /** The rows, at most twenty. */
  readonly about: readonly string[]
  readonly count: number
}

export type SelfCheck = {
  readonly checked: readonly string[]
  /** The checks that need the log written by the job programs. */
  readonly notChecked: readonly string[]
  readonly violations: readonly Violation[]
}

/** One execution as the job itself logged it, outside the scheduler's transactions. */
export type Execution = { readonly jobId: string; readonly runId: string }

const SHOWN_MAX = 20
const ids = Object.keys(invariantQueries) as InvariantId[]
const executionIds = Object.keys(executionQueries) as ExecutionInvariantId[]

export function checkInvariants(scheduler: Scheduler, executions?: readonly Execution[]): Decision<SelfCheck> {
  return scheduler.db.read((reader) => {
    const log = executions && JSON.stringify(executions)
    const violations = [
      ...ids.flatMap((id) => asViolation(id, invariantQueries[id].says, reader.all(invariantQueries[id].query))),
      ...(log === undefined ? [] : executionIds).flatMap((id) =>
        asViolation(id, executionQueries[id].says, reader.all(executionQueries[id].query, { executions: log ?? '[]' })),
      ),
      ...fileViolations(reader),
    ]
    const checked = [...ids, ...(executions ? executionIds : []), 'integrity', 'foreign_key', 'schema']
    return { checked, notChecked: executions ? [] : executionIds, violations }
  })
}

function asViolation(
  invariant: Violation['invariant'],
  says: string,
  rows: readonly { readonly about: string }[],
): Violation[] {
  const about = rows.slice(0, SHOWN_MAX).map((row) => row.about)
  return rows.length === 0 ? [] : [{ invariant, says, about, count: rows.length }]
}

function fileViolations(reader: Reader): Violation[] {
  const damage = reader.all(integrityCheck).map((row) => ({ about: row.integrity_check }))
  const isWhole = damage.length === 1 && damage[0]?.about === 'ok'
  const orphans = reader.all(foreignKeyCheck).map((row) => ({ about: `${row.table} → ${row.parent}` }))
  return [
    ...asViolation('integrity', 'SQLite finds the file whole', isWhole ? [] : damage),
    ...asViolation('foreign_key', 'every reference has its row', orphans),
    ...asViolation('schema', 'every table, index and guard is as it was made', changedSchema(reader)),
  ]
}

/** Compares the schema with that of a new file. `jobs_type_queue_ix`, which is created and dropped on demand, is not compared. */
function changedSchema(reader: Reader): { readonly about: string }[] {
  const fresh = openDatabase({ file: IN_MEMORY, busyTimeoutMs: 0 })
  migrate(fresh, { at: 0 })
  const here = new Map(reader.all(listSchema).map(({ name, sql }) => [name, sql]))
  const changed = fresh.all(listSchema).filter(({ name, sql }) => here.get(name) !== sql)
  fresh.close()
  return changed.map(({ name }) => ({ about: name }))
}

/** Prints one line per violation. */
export function describeSelfCheck({ checked, notChecked, violations }: SelfCheck): string {
  const lines = violations.map(({ invariant, says, about, count }) => {
    const more = count > about.length ? ` and ${count - about.length} more` : ''
    return `${invariant} broken: ${says} (${count}): ${about.join(', ')}${more}`
  })
  const rest = notChecked.length === 0 ? '' : `, ${notChecked.join(' and ')} need the log of the jobs`
  return [...lines, `${checked.length} checks, ${violations.length} broken${rest}`].join('\n')
}
