/** The self-check: runs one query per invariant, each of which must return no rows. Changes nothing. */
import { z } from 'zod'
import { accept, type Decision } from '#kernel/refusal'
import { IN_MEMORY, openDatabase, type SqlReader, query } from './database.ts'
import { migrate } from './migrate.ts'
import type { Scheduler } from './scheduler.ts'

type Found = { readonly about: string }

/** Each query must return no rows; `about` identifies a row that breaks the invariant. */
const invariants = {
  S01: [
    'no RUNNING job without a run',
    `select j.job_id as about from jobs j left join job_runs r on r.job_id = j.job_id where j.status = 'RUNNING' and r.run_id is null`,
  ],
  S02: [
    'no run without a job',
    `select r.run_id as about from job_runs r left join jobs j on j.job_id = r.job_id where j.job_id is null`,
  ],
  S03: ['no job with two runs', `select job_id as about from job_runs group by job_id having count(*) > 1`],
  S04: [
    'at most one ACTIVE reservation',
    `select reservation_id as about from direct_reservations where status = 'ACTIVE'
      and (select count(*) from direct_reservations where status = 'ACTIVE') > 1`,
  ],
  S05: [
    'at most one retry of a job',
    `select retry_of as about from jobs where retry_of is not null group by retry_of having count(*) > 1`,
  ],
  S06: [
    'a run has an outcome if and only if its job has finished',
    `select j.job_id as about from jobs j join job_runs r on r.job_id = j.job_id where (r.status is not null) <> (j.finished_at is not null)`,
  ],
  S07: [
    'a run holds the params of its job',
    `select j.job_id as about from jobs j join job_runs r on r.job_id = j.job_id where json(j.params) <> json(r.params_snapshot)`,
  ],
  S08: [
    'no two queued jobs at one position',
    `select group_concat(job_id, ' ') as about from jobs where status = 'QUEUED' group by priority, position having count(*) > 1`,
  ],
  S09: [
    'only a failed job is retried',
    `select c.job_id as about from jobs c join job_runs r on r.job_id = c.retry_of where r.status is not 'FAILED'`,
  ],
  S12: [
    'no queued job started during a reservation',
    `select r.run_id as about from job_runs r join jobs j on j.job_id = r.job_id
      join direct_reservations d on r.started_at > d.reserved_at and r.started_at < coalesce(d.ended_at, d.expires_at)
      where j.reservation_id is not d.reservation_id`,
  ],
  S13: [
    'a retry exists exactly where it was decided',
    `select r.job_id as about from job_runs r left join jobs c on c.retry_of = r.job_id
      where r.status = 'FAILED' and (r.retry_decided is 'retry') <> (c.job_id is not null)`,
  ],
  S14: [
    'no retry chain leads back into itself',
    `with recursive up (start, at, hops) as (
        select job_id, retry_of, 1 from jobs where retry_of is not null
        union all select start, jobs.retry_of, hops + 1 from up join jobs on jobs.job_id = up.at
         where up.at is not null and up.at <> up.start and hops < 1000)
      select distinct start as about from up where at = start`,
  ],
  S15: [
    'a due time of a schedule made at most one job',
    `select schedule_id || ' ' || due_at as about from schedule_firings group by schedule_id, due_at having count(*) > 1`,
  ],
  S10: [
    'nothing was executed outside a run',
    `select e.value ->> 'jobId' as about from json_each($executions) e
      left join job_runs r on r.run_id = e.value ->> 'runId' where r.run_id is null`,
  ],
  S11: [
    'nothing was executed twice',
    `select value ->> 'jobId' as about from json_each($executions) group by 1 having count(*) > 1`,
  ],
} as const

type InvariantId = keyof typeof invariants
const ids = Object.keys(invariants) as InvariantId[]
/** The two that need the execution log of the jobs, as a JSON list of `{ jobId, runId }`. */
const logIds = ['S10', 'S11']

const integrityCheck = query<{ integrity_check: string }>(`pragma integrity_check(20)`)
const foreignKeyCheck = query<{ table: string; rowid: number; parent: string }>(`pragma foreign_key_check`)
const listSchema = query<{ name: string; sql: string }>(
  `select name, sql from sqlite_schema where sql is not null order by name`,
)

export const selfCheckView = z
  .object({
    checked: z.array(z.string()).meta({ example: ['S01', 'S02'] }),
    not_checked: z.array(z.string()).meta({ description: 'The checks that need the log written by the jobs.' }),
    violations: z.array(
      z.object({ invariant: z.string(), says: z.string(), about: z.array(z.string()), count: z.int() }),
    ),
  })
  .meta({ id: 'SchedulerSelfCheck', description: 'The invariants that were checked, and their violations.' })
export type SelfCheck = z.infer<typeof selfCheckView>

/** One execution as the job itself logged it, outside the scheduler's transactions. */
export type Execution = { readonly jobId: string; readonly runId: string }

const SHOWN_MAX = 20

export function checkInvariants(scheduler: Scheduler, executions?: readonly Execution[]): Decision<SelfCheck> {
  const not_checked = executions ? [] : logIds
  const checkable = ids.filter((id) => !not_checked.includes(id))
  const log = { executions: JSON.stringify(executions ?? []) }
  return scheduler.db.read((reader) => {
    const broken = checkable.flatMap((id) => {
      const [says, sql] = invariants[id]
      return asViolation(id, says, reader.all(query<Found, typeof log>(sql), log))
    })
    return accept({
      checked: [...checkable, 'integrity', 'foreign_key', 'schema'],
      not_checked,
      violations: [...broken, ...fileViolations(reader)],
    })
  })
}

function asViolation(invariant: string, says: string, rows: readonly Found[]): SelfCheck['violations'] {
  const about = rows.slice(0, SHOWN_MAX).map((row) => row.about)
  return rows.length === 0 ? [] : [{ invariant, says, about, count: rows.length }]
}

function fileViolations(reader: SqlReader): SelfCheck['violations'] {
  const damage = reader.all(integrityCheck).map((row) => ({ about: row.integrity_check }))
  const isWhole = damage.length === 1 && damage[0]?.about === 'ok'
  const orphans = reader.all(foreignKeyCheck).map((row) => ({ about: `${row.table} → ${row.parent}` }))
  return [
    ...asViolation('integrity', 'SQLite reports the file as intact', isWhole ? [] : damage),
    ...asViolation('foreign_key', 'every reference has its row', orphans),
    ...asViolation('schema', 'every table, index and trigger matches the migrations', changedSchema(reader)),
  ]
}

/** Compares the schema with that of a new file. `jobs_type_queue_ix`, which is created and dropped on demand, is not compared. */
function changedSchema(reader: SqlReader): Found[] {
  const fresh = openDatabase({ file: IN_MEMORY, busyTimeoutMs: 0 })
  migrate(fresh, { at: 0 })
  const here = new Map(reader.all(listSchema).map(({ name, sql }) => [name, sql]))
  const changed = fresh.all(listSchema).filter(({ name, sql }) => here.get(name) !== sql)
  fresh.close()
  return changed.map(({ name }) => ({ about: name }))
}

/** Prints one line per violation. */
export function describeSelfCheck({ checked, not_checked, violations }: SelfCheck): string {
  const lines = violations.map(({ invariant, says, about, count }) => {
    const more = count > about.length ? ` and ${count - about.length} more` : ''
    return `${invariant} broken: ${says} (${count}): ${about.join(', ')}${more}`
  })
  const rest = not_checked.length === 0 ? '' : `, ${not_checked.join(' and ')} need the log of the jobs`
  return [...lines, `${checked.length} checks, ${violations.length} broken${rest}`].join('\n')
}
