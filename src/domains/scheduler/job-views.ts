/** Jobs and runs as callers see them. */
import { z } from 'zod'
import { idView, timeView } from '#contract'
import { failureClasses } from '#kernel/error-classes'
import { encodeId } from '#kernel/ids'
import type { JobReport } from './list-jobs.ts'
import { objectView, readObject, readTexts, showIdOrNull, showTime, showTimeOrNull } from './column-view.ts'
import { retryVerdicts, type RunOutcome, runOutcomes, type StoredJob, type StoredRun } from './stored-rows.ts'

export const jobView = z
  .object({
    job_id: idView('job'),
    template_id: z.string().nullable(),
    schedule_id: z.string().nullable(),
    group_id: z.string().nullable(),
    job_type: z.string().meta({ example: 'story' }),
    params: objectView,
    state: z
      .enum(['queued', 'running', 'finished', 'cancelled'])
      .meta({ example: 'finished', description: 'Where it stands: this field alone says it.' }),
    outcome: z
      .enum(runOutcomes)
      .nullable()
      .meta({ example: 'COMPLETED', description: 'How it ended; null for one that has not finished.' }),
    priority: z.int(),
    position: z.int(),
    retry_of: z.string().nullable(),
    hold: z.enum(['delay', 'group', 'direct']).nullable(),
    not_before: timeView().nullable(),
    created_at: timeView(),
    queued_at: timeView(),
    started_at: timeView().nullable(),
    finished_at: timeView().nullable(),
    cancelled_at: timeView().nullable(),
  })
  .meta({ id: 'SchedulerJob', description: 'One queued piece of work, dispatched at most once.' })
export type JobView = z.infer<typeof jobView>

export const jobRunView = z
  .object({
    run_id: idView('job_run'),
    job_id: z.string(),
    /** `running` while there is no outcome. */
    status: z.enum(['running', ...runOutcomes]),
    started_at: timeView(),
    finished_at: timeView().nullable(),
    exit_code: z.int().nullable(),
    error: z.string().nullable(),
    error_class: z.enum(failureClasses).nullable(),
    retry_decided: z.enum(retryVerdicts).nullable(),
    artifacts: z.array(z.string()),
    log_path: z.string().nullable(),
    params: objectView,
  })
  .meta({ id: 'SchedulerJobRun', description: 'The one execution of a job, and its outcome.' })
export type JobRunView = z.infer<typeof jobRunView>

/** The column says RUNNING for ever, which is a rule of the file and means nothing to people: views leave it out. */
export function stateOfJob(job: Pick<StoredJob, 'status' | 'finished_at'>): JobView['state'] {
  if (job.status === 'QUEUED') return 'queued'
  if (job.status === 'CANCELLED') return 'cancelled'
  return job.finished_at === null ? 'running' : 'finished'
}

export function toJobView(job: StoredJob & { readonly outcome?: RunOutcome | null }): JobView {
  return {
    job_id: encodeId('job', job.job_id),
    template_id: showIdOrNull('job_template', job.template_id),
    schedule_id: showIdOrNull('schedule', job.schedule_id),
    group_id: showIdOrNull('job_group', job.group_id),
    job_type: job.job_type,
    params: readObject(job.params),
    state: stateOfJob(job),
    outcome: job.outcome ?? null,
    priority: job.priority,
    position: job.position,
    retry_of: showIdOrNull('job', job.retry_of),
    hold: job.hold,
    not_before: showTimeOrNull(job.not_before),
    created_at: showTime(job.created_at),
    queued_at: showTime(job.queued_at),
    started_at: showTimeOrNull(job.started_at),
    finished_at: showTimeOrNull(job.finished_at),
    cancelled_at: showTimeOrNull(job.cancelled_at),
  }
}

export function toJobRunView(run: StoredRun): JobRunView {
  return {
    run_id: encodeId('job_run', run.run_id),
    job_id: encodeId('job', run.job_id),
    status: run.status ?? 'running',
    started_at: showTime(run.started_at),
    finished_at: showTimeOrNull(run.finished_at),
    exit_code: run.exit_code,
    error: run.error,
    error_class: run.error_class,
    retry_decided: run.retry_decided,
    artifacts: readTexts(run.artifacts),
    log_path: run.log_path,
    params: readObject(run.params_snapshot),
  }
}

export const jobReportView = z.object({ job: jobView, run: jobRunView.nullable() })
export function toJobReportView({ job, run }: JobReport): z.infer<typeof jobReportView> {
  return { job: toJobView({ ...job, outcome: run?.status ?? null }), run: run && toJobRunView(run) }
}
