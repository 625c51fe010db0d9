/** The registered kinds of work: a job of any other type is refused, by the service and by a foreign key. */
import type { z } from 'zod'
import { didYouMean } from '#kernel/nearest'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { jobTypeBody, type RetryPolicyBody } from './contract.ts'
import type { Database, Reader, Tx } from './database.ts'
import { parseInput } from './parse-input.ts'
import { readRetryPolicy } from './retry-policy.ts'
import { nowMs, type Scheduler } from './scheduler.ts'
import { statement } from './statement.ts'
import type { StoredJobType } from './stored-rows.ts'

export type JobTypeBody = z.input<typeof jobTypeBody>

/** What a scheduler knows that was told nothing. */
export const defaultJobTypes: readonly JobTypeBody[] = [{ job_type: 'story' }, { job_type: 'research' }]

const COLUMNS = `job_type, retry_policy, concurrency_limit, runner, created_at, updated_at`

const upsertType = statement<
  StoredJobType,
  { job_type: string; retry_policy: string; concurrency_limit: number | null; runner: string | null; now: number }
>(
  'upsert_job_type',
  `insert into job_types (job_type, retry_policy, concurrency_limit, runner, created_at, updated_at)
   values ($job_type, $retry_policy, $concurrency_limit, $runner, $now, $now)
       on conflict (job_type) do update
      set retry_policy = excluded.retry_policy, concurrency_limit = excluded.concurrency_limit, runner = excluded.runner,
          updated_at = excluded.updated_at
   returning ${COLUMNS}`,
)
const selectType = statement<StoredJobType, { job_type: string }>(
  'select_job_type',
  `select ${COLUMNS} from job_types where job_type = $job_type`,
)
const selectTypes = statement<StoredJobType>('select_job_types', `select ${COLUMNS} from job_types order by job_type`)
const countLimits = statement<{ count: number }>(
  'count_limits',
  `select count(*) as count from job_types where concurrency_limit is not null`,
)

/** Registers a type or changes its rules; jobs that failed before keep the verdict they got. */
export function registerJobType(scheduler: Scheduler, body: JobTypeBody): Decision<StoredJobType> {
  const now = nowMs(scheduler)
  return scheduler.db.write((tx) => saveJobType(scheduler.db, tx, body, now))
}

export function saveJobType(db: Database, tx: Tx, body: JobTypeBody, now: number): Decision<StoredJobType> {
  const parsed = parseInput(jobTypeBody, body)
  if (!parsed.ok) return parsed
  const { job_type, retry_policy, concurrency_limit, runner } = parsed.value
  const row = { job_type, retry_policy: JSON.stringify(retry_policy), concurrency_limit, now }
  const saved = tx.one(upsertType, { ...row, runner: runner === null ? null : JSON.stringify(runner) })
  // Only while a type has a limit is the queue also read by type; one index less is one page less in every dispatch.
  const hasLimits = (tx.one(countLimits)?.count ?? 0) > 0
  db.exec(hasLimits ? CREATE_TYPE_INDEX : 'drop index if exists jobs_type_queue_ix')
  return saved ? accept(saved) : refuse('row.conflict', 'the job type was not stored')
}

const CREATE_TYPE_INDEX = `
  create index if not exists jobs_type_queue_ix on jobs (job_type, priority desc, position, created_at, job_id)
   where status = 'QUEUED' and hold is null`

export function listJobTypes(reader: Reader): StoredJobType[] {
  return reader.all(selectTypes)
}

export function requireJobType(reader: Reader, jobType: string): Decision<StoredJobType> {
  const found = reader.one(selectType, { job_type: jobType })
  if (found) return accept(found)
  const known = listJobTypes(reader).map((type) => type.job_type)
  const { hint = '' } = didYouMean(jobType, known)
  return refuse('scheduler.job_type.unknown', `${quote(jobType)} is not a registered job type`, {
    path: 'job_type',
    hint: `${hint} Registered are ${known.join(', ') || 'none'}.`.trim(),
    facts: { registered: known },
  })
}

/** The rules of the type as they are now; a type that has gone gets no retries. */
export function findRetryPolicy(reader: Reader, jobType: string): RetryPolicyBody {
  return readRetryPolicy(reader.one(selectType, { job_type: jobType })?.retry_policy ?? '')
}
