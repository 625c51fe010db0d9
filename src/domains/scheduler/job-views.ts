/** Reads the queue, jobs by filter, one job with its run and its retry chain, and builds the views of jobs and runs. */
import { z } from 'zod'
import { idView, orNull, timeView } from '#contract'
import { failureClasses } from '#kernel/error-classes'
import { encodeId } from '#kernel/ids'
import { utf8Size } from '#kernel/json-value'
import { PAGE_BYTES_MAX } from '#kernel/page-limit'
import { accept, type Decision } from '#kernel/refusal'
import { walkRetryChain } from '#kernel/retry'
import { type SqlValue, query } from './database.ts'
import {
  findJob,
  findRetry,
  findRetryOf,
  JOB_COLUMNS,
  pageOfJobs,
  type PagedJob,
  requireJob,
} from './job-repository.ts'
import { checkLimit } from './parse-input.ts'
import { countQueued, listQueued } from './queue.ts'
import { findRunOfJob } from './run-repository.ts'
import type { Scheduler } from './scheduler.ts'
import {
  defineView,
  objectView,
  readObject,
  retryVerdicts,
  type RunOutcome,
  runOutcomes,
  showIdOrNull,
  showTime,
  type StoredJob,
  type StoredRun,
} from './stored-rows.ts'

/** The `status` column stays RUNNING after the end, by the rules of the file, so views show another one. */
const jobStatuses = ['queued', 'running', 'finished', 'cancelled'] as const

function statusOfJob({ status, finished_at }: StoredJob): (typeof jobStatuses)[number] {
  if (status === 'QUEUED') return 'queued'
  if (status === 'CANCELLED') return 'cancelled'
  return finished_at === null ? 'running' : 'finished'
}

const job = defineView<StoredJob & { readonly outcome?: RunOutcome | null }>()({
  job_id: [idView('job'), (row) => encodeId('job', row.job_id)],
  template_id: [z.string().nullable(), (row) => showIdOrNull('job_template', row.template_id)],
  schedule_id: [z.string().nullable(), (row) => showIdOrNull('schedule', row.schedule_id)],
  group_id: [z.string().nullable(), (row) => showIdOrNull('job_group', row.group_id)],
  job_type: [z.string().meta({ example: 'story' }), (row) => row.job_type],
  params: [objectView, (row) => readObject(row.params)],
  status: [z.enum(jobStatuses).meta({ example: 'finished', description: 'The status of the job.' }), statusOfJob],
  outcome: [
    z
      .enum(runOutcomes)
      .nullable()
      .meta({ example: 'COMPLETED', description: 'The outcome of its run. Null until the job has finished.' }),
    (row) => row.outcome ?? null,
  ],
  priority: [z.int(), (row) => row.priority],
  position: [z.int(), (row) => row.position],
  requested_by: [
    z.string().nullable().meta({ description: 'Who asked for it over HTTP. Null for a local program.' }),
    (row) => row.requested_by,
  ],
  retry_of: [z.string().nullable(), (row) => showIdOrNull('job', row.retry_of)],
  hold: [z.enum(['delay', 'group', 'direct']).nullable(), (row) => row.hold],
  not_before: [timeView().nullable(), (row) => orNull(row.not_before, showTime)],
  created_at: [timeView(), (row) => showTime(row.created_at)],
  queued_at: [timeView(), (row) => showTime(row.queued_at)],
  started_at: [timeView().nullable(), (row) => orNull(row.started_at, showTime)],
  finished_at: [timeView().nullable(), (row) => orNull(row.finished_at, showTime)],
  cancelled_at: [timeView().nullable(), (row) => orNull(row.cancelled_at, showTime)],
})
export const toJobView = job.show
export const jobView = job.schema.meta({
  id: 'SchedulerJob',
  description: 'One unit of work, dispatched at most once.',
})
export type JobView = z.infer<typeof jobView>

const run = defineView<StoredRun>()({
  run_id: [idView('job_run'), (row) => encodeId('job_run', row.run_id)],
  job_id: [z.string(), (row) => encodeId('job', row.job_id)],
  /** `running` while there is no outcome. */
  status: [z.enum(['running', ...runOutcomes]), (row) => row.status ?? 'running'],
  started_at: [timeView(), (row) => showTime(row.started_at)],
  finished_at: [timeView().nullable(), (row) => orNull(row.finished_at, showTime)],
  exit_code: [z.int().nullable(), (row) => row.exit_code],
  error: [z.string().nullable(), (row) => row.error],
  error_class: [z.enum(failureClasses).nullable(), (row) => row.error_class],
  retry_decided: [z.enum(retryVerdicts).nullable(), (row) => row.retry_decided],
  artifacts: [z.array(z.string()), (row) => JSON.parse(row.artifacts) as string[]],
  log_path: [z.string().nullable(), (row) => row.log_path],
  params: [objectView, (row) => readObject(row.params_snapshot)],
})
export const toJobRunView = run.show
export const jobRunView = run.schema.meta({
  id: 'SchedulerJobRun',
  description: 'The one execution of a job, and its outcome.',
})

export const jobReportView = z.object({ job: jobView, run: jobRunView.nullable() })
export function toJobReportView({ job, run }: JobReport): z.infer<typeof jobReportView> {
  return { job: toJobView({ ...job, outcome: run?.status ?? null }), run: run && toJobRunView(run) }
}

export type QueuePage = {
  readonly jobs: readonly PagedJob[]
  /** QUEUED jobs that may be dispatched. */
  readonly ready: number
  /** QUEUED jobs with a hold. */
  readonly held: number
}

/** In dispatch order; `after` is the last job of the previous page. Held jobs are listed by their position. */
export function listQueue(scheduler: Scheduler, page: { limit?: number; after?: string } = {}): Decision<QueuePage> {
  const limit = checkLimit(page.limit)
  if (!limit.ok) return limit
  return scheduler.db.read((reader) => {
    const after = page.after === undefined ? accept(undefined) : requireJob(reader, page.after)
    if (!after.ok) return after
    return accept({ jobs: listQueued(reader, limit.value, after.value), ...countQueued(reader) })
  })
}

/** `running` is in flight; `finished` has any outcome; the next three name the outcome. */
export const jobFilters = ['queued', 'running', 'finished', 'completed', 'failed', 'skipped', 'cancelled'] as const

function endedAs(outcome: RunOutcome): string {
  return `status = 'RUNNING' and finished_at is not null
      and exists (select 1 from job_runs r where r.job_id = jobs.job_id and r.status = '${outcome}')`
}

/** Worded like the partial indexes, so that each filter uses its own. */
const statusConditions = {
  queued: `status = 'QUEUED'`,
  running: `status = 'RUNNING' and finished_at is null`,
  finished: `status = 'RUNNING' and finished_at is not null`,
  completed: endedAs('COMPLETED'),
  failed: endedAs('FAILED'),
  skipped: endedAs('SKIPPED'),
  cancelled: `status = 'CANCELLED'`,
} as const satisfies Record<(typeof jobFilters)[number], string>

export type JobFilter = {
  readonly status?: (typeof jobFilters)[number]
  readonly jobType?: string
  readonly groupId?: string
  readonly scheduleId?: string
  /** Only jobs created before this one. */
  readonly before?: string
  readonly limit?: number
}

/** A job with the outcome of its run; null while it has none. */
export type ListedJob = PagedJob & { readonly outcome: RunOutcome | null }

/** Newest first. */
export function listJobs(scheduler: Scheduler, filter: JobFilter = {}): Decision<readonly ListedJob[]> {
  const limit = checkLimit(filter.limit)
  if (!limit.ok) return limit
  const conditions = [
    'job_id < $before',
    ...(filter.status === undefined ? [] : [statusConditions[filter.status]]),
    ...(filter.jobType === undefined ? [] : ['job_type = $job_type']),
    ...(filter.groupId === undefined ? [] : ['group_id = $group_id']),
    ...(filter.scheduleId === undefined ? [] : ['schedule_id = $schedule_id']),
  ]
  const params: Record<string, SqlValue> = { before: filter.before ?? '~', limit: limit.value }
  if (filter.jobType !== undefined) params['job_type'] = filter.jobType
  if (filter.groupId !== undefined) params['group_id'] = filter.groupId
  if (filter.scheduleId !== undefined) params['schedule_id'] = filter.scheduleId
  const select = query<ListedJob, Readonly<Record<string, SqlValue>>>(
    pageOfJobs(`
   select ${JOB_COLUMNS}, (select r.status from job_runs r where r.job_id = jobs.job_id) as outcome
       from jobs where ${conditions.join(' and ')} order by job_id desc limit $limit`),
  )
  return scheduler.db.read((reader) => accept(reader.all(select, params)))
}

export type JobReport = { readonly job: StoredJob; readonly run: StoredRun | null }

export function readJob(scheduler: Scheduler, jobId: string): Decision<JobReport> {
  return scheduler.db.read((reader) => {
    const job = requireJob(reader, jobId)
    return job.ok ? accept({ job: job.value, run: findRunOfJob(reader, jobId) ?? null }) : job
  })
}

/** Lists the chain from the original to the newest retry, starting at any of its jobs. Refuses a damaged chain. One larger than 4 MiB begins later. */
export function readRetryChain(scheduler: Scheduler, jobId: string): Decision<readonly JobReport[]> {
  return scheduler.db.read((reader) => {
    const job = requireJob(reader, jobId)
    if (!job.ok) return job
    const up = walkRetryChain(jobId, (id) => findRetryOf(reader, id))
    if (!up.ok) return up
    const ids = up.value.toReversed()
    // Terminates: the walk upwards has ended, so the chain contains no cycle.
    for (let next = findRetry(reader, jobId); next; next = findRetry(reader, next.job_id)) ids.push(next.job_id)
    const chain: JobReport[] = []
    let bytes = 0
    for (const id of ids.toReversed()) {
      const found = findJob(reader, id)
      if (!found) continue
      const run = findRunOfJob(reader, id) ?? null
      bytes += utf8Size(found.params) + utf8Size(run?.params_snapshot ?? '') + utf8Size(run?.artifacts ?? '')
      if (chain.length > 0 && bytes > PAGE_BYTES_MAX) break
      chain.unshift({ job: found, run })
    }
    return accept(chain)
  })
}
