/** Looking at jobs: the queue in its order, jobs by filter, one job with its run, and the whole chain of its retries. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import { walkRetryChain } from '#kernel/retry-chain'
import { PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX } from '#kernel/page-limit'
import type { Reader } from './database.ts'
import { findJob, findRetry, findRetryOf, requireJob } from './job-repository.ts'
import { countQueued, listQueued } from './queue-repository.ts'
import { findRunOfJob } from './run-repository.ts'
import type { Scheduler } from './scheduler.ts'
import { JOB_COLUMNS } from './sql/job-columns.ts'
import { type SqlValue, statement } from './statement.ts'
import type { RunOutcome, StoredJob, StoredRun } from './stored-rows.ts'

export type QueuePage = {
  readonly jobs: readonly StoredJob[]
  /** In the queue, and QUEUED but held back. */
  readonly ready: number
  readonly held: number
}

/** In the order of dispatch; `after` is the last job of the page before. Held jobs stand where their position puts them. */
export function listQueue(scheduler: Scheduler, page: { limit?: number; after?: string } = {}): Decision<QueuePage> {
  const limit = checkLimit(page.limit)
  if (!limit.ok) return limit
  const read = scheduler.db.read((reader): Decision<QueuePage> => {
    const after = page.after === undefined ? accept(undefined) : requireJob(reader, page.after)
    if (!after.ok) return after
    return accept({ jobs: listQueued(reader, limit.value, after.value), ...countQueued(reader) })
  })
  return read.ok ? read.value : read
}

/** `running` is in flight; `finished` ran to an end, whatever end; the next three say which end. */
export const jobFilters = ['queued', 'running', 'finished', 'completed', 'failed', 'skipped', 'cancelled'] as const

function endedAs(outcome: RunOutcome): string {
  return `status = 'RUNNING' and finished_at is not null
      and exists (select 1 from job_runs r where r.job_id = jobs.job_id and r.status = '${outcome}')`
}

/** Spelled as the partial indexes are, so that each filter finds its own. */
const stateConditions = {
  queued: `status = 'QUEUED'`,
  running: `status = 'RUNNING' and finished_at is null`,
  finished: `status = 'RUNNING' and finished_at is not null`,
  completed: endedAs('COMPLETED'),
  failed: endedAs('FAILED'),
  skipped: endedAs('SKIPPED'),
  cancelled: `status = 'CANCELLED'`,
} as const satisfies Record<(typeof jobFilters)[number], string>

export type JobFilter = {
  readonly state?: (typeof jobFilters)[number]
  readonly jobType?: string
  readonly groupId?: string
  readonly scheduleId?: string
  /** Jobs made before this one. */
  readonly before?: string
  readonly limit?: number
}

/** A job and how its run ended; null while it has not. */
export type ListedJob = StoredJob & { readonly outcome: RunOutcome | null }

/** Newest first. */
export function listJobs(scheduler: Scheduler, filter: JobFilter = {}): Decision<readonly ListedJob[]> {
  const limit = checkLimit(filter.limit)
  if (!limit.ok) return limit
  const conditions = [
    'job_id < $before',
    ...(filter.state === undefined ? [] : [stateConditions[filter.state]]),
    ...(filter.jobType === undefined ? [] : ['job_type = $job_type']),
    ...(filter.groupId === undefined ? [] : ['group_id = $group_id']),
    ...(filter.scheduleId === undefined ? [] : ['schedule_id = $schedule_id']),
  ]
  const params: Record<string, SqlValue> = { before: filter.before ?? '~', limit: limit.value }
  if (filter.jobType !== undefined) params['job_type'] = filter.jobType
  if (filter.groupId !== undefined) params['group_id'] = filter.groupId
  if (filter.scheduleId !== undefined) params['schedule_id'] = filter.scheduleId
  const select = statement<ListedJob, Readonly<Record<string, SqlValue>>>(
    'select_jobs',
    `select ${JOB_COLUMNS}, (select r.status from job_runs r where r.job_id = jobs.job_id) as outcome
       from jobs where ${conditions.join(' and ')} order by job_id desc limit $limit`,
  )
  return scheduler.db.read((reader) => reader.all(select, params))
}

export type JobReport = { readonly job: StoredJob; readonly run: StoredRun | null }

export function readJob(scheduler: Scheduler, jobId: string): Decision<JobReport> {
  const read = scheduler.db.read((reader): Decision<JobReport> => {
    const job = requireJob(reader, jobId)
    return job.ok ? accept({ job: job.value, run: findRunOfJob(reader, jobId) ?? null }) : job
  })
  return read.ok ? read.value : read
}

/** From the original to the newest retry, whichever of them is asked for; a damaged chain is refused, never walked for ever. */
export function readRetryChain(scheduler: Scheduler, jobId: string): Decision<readonly JobReport[]> {
  const read = scheduler.db.read((reader): Decision<readonly JobReport[]> => {
    const job = requireJob(reader, jobId)
    if (!job.ok) return job
    const up = walkRetryChain(jobId, (id) => findRetryOf(reader, id))
    if (!up.ok) return up
    const ids = [...up.value.toReversed(), ...walkDown(reader, jobId)]
    return accept(ids.flatMap((id) => reportOf(reader, id)))
  })
  return read.ok ? read.value : read
}

/** Upwards the chain was found to end, so downwards it cannot come back to where it began. */
function walkDown(reader: Reader, jobId: string): string[] {
  const ids: string[] = []
  for (let next = findRetry(reader, jobId); next; next = findRetry(reader, next.job_id)) ids.push(next.job_id)
  return ids
}

function reportOf(reader: Reader, jobId: string): JobReport[] {
  const job = findJob(reader, jobId)
  return job ? [{ job, run: findRunOfJob(reader, jobId) ?? null }] : []
}

export function checkLimit(limit = PAGE_LIMIT_DEFAULT): Decision<number> {
  if (Number.isInteger(limit) && limit >= 1 && limit <= PAGE_LIMIT_MAX) return accept(limit)
  return refuse('limit_range', `the limit is not 1 to ${PAGE_LIMIT_MAX}`, {
    path: 'limit',
    facts: { min: 1, max: PAGE_LIMIT_MAX },
  })
}
