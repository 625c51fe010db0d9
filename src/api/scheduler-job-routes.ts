/** The scheduler over HTTP: its status and self-check, jobs (submit, read, change, move, cancel, repeat) and groups. */
import { z } from '@hono/zod-openapi'
import { idField, pageView, textField } from '#contract'
import {
  cancelJob,
  changeJob,
  changeJobBody,
  digestChange,
  digestWork,
  groupView,
  jobFilters,
  type JobReport,
  jobReportView,
  jobView,
  keyOfGroup,
  keyOfJob,
  keyOfRetry,
  listGroups,
  listJobs,
  listQueue,
  placeJob,
  placeJobBody,
  readGroup,
  readGroupOf,
  readJob,
  readRetryChain,
  readStatus,
  requestStop,
  reservationView,
  retryJob,
  runsAsPlanned,
  type Scheduler,
  selfCheckView,
  submitGroup,
  submitGroupBody,
  submitJob,
  submitJobBody,
  submittedGroupView,
  toGroupView,
  toJobReportView,
  toJobView,
  toReservationView,
  toSubmittedGroupView,
} from '#domains/scheduler'
import { encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision } from '#kernel/refusal'
import type { SchedulerApi } from './api-deps.ts'
import { bodyProblems } from './problem.ts'
import { keyHeader, routes, shown } from './resource.ts'
import {
  change,
  fullPage,
  get,
  jobParam,
  knownJob,
  list,
  patch,
  post,
  requireScheduler,
  viewFrom,
  withScheduler,
} from './scheduler-api.ts'

const statusView = z
  .object({
    running: z.boolean(),
    stopped_because: z.string().nullable(),
    workers: z.int(),
    ready: z.int().meta({ description: 'Jobs that can start.' }),
    held: z.int().meta({ description: 'Jobs held for a start time, a turn in a group or a direct execution.' }),
    in_flight: z.int(),
    reservation: reservationView.nullable().meta({ description: 'While it is active, no queued job starts.' }),
  })
  .meta({ id: 'SchedulerStatus' })

const jobPage = pageView(jobView, 'SchedulerJobPage')
const chainView = jobReportView
  .extend({
    chain: z
      .array(jobReportView)
      .meta({ description: 'From the original to its newest retry. A chain larger than 4 MiB begins later.' }),
  })
  .meta({ id: 'SchedulerJobReport' })
const cancelledView = jobReportView
  .extend({
    ending: z.boolean().meta({ description: 'Whether the job is running and the scheduler was asked to end it.' }),
  })
  .meta({ id: 'SchedulerCancelledJob' })

export const schedulerStatusRoutes = routes({
  describeScheduler: get('/scheduler', {
    summary: 'Get the status of the scheduler',
    role: 'reader',
    answers: { 200: ['The status.', statusView] },
    problems: [404],
    handle: (call) => withScheduler(call, describe),
  }),
  checkScheduler: get('/scheduler/check', {
    summary: 'Check all invariants of the scheduler file',
    role: 'admin',
    answers: { 200: ['The result.', selfCheckView] },
    problems: [404, 409],
    handle(call) {
      const api = requireScheduler(call)
      return api.ok ? shown(api.value.check(), (found) => found) : api
    },
  }),
})

export const schedulerJobRoutes = routes({
  submitSchedulerJob: post('/scheduler/jobs', {
    summary: 'Submit a job at the end of its priority',
    description: 'A job type with `from_params`, whose jobs name their own command, requires an administrator.',
    role: 'writer',
    body: [submitJobBody, 'The job'],
    answers: { 200: ['The job of the same request with this key.', jobView], 201: ['The queued job.', jobView] },
    problems: [404, 409],
    handle(call) {
      const { body } = call
      const { job_type, template_id } = body
      const asked = {
        operation: 'submit_job',
        may: [body],
        runs: (scheduler: Scheduler) => digestWork(scheduler, [body]),
        creates: 'job',
        facts: { job_type, template_id: template_id && encodeId('job_template', template_id) },
        repeats: { key: keyOfJob(body), known: knownJob },
      } as const
      return change(call, asked, toJobView, (scheduler, { newId: jobId, ...recorded }) =>
        submitJob(scheduler, call.sent, { jobId, ...recorded }),
      )
    },
  }),
  listSchedulerJobs: list('/scheduler/jobs', {
    summary: 'List jobs, newest first',
    role: 'reader',
    allow: requireScheduler,
    query: {
      status: z.enum(jobFilters).optional().meta({ example: 'finished' }),
      job_type: textField(64).optional().meta({ example: 'report' }),
      group_id: idField('job_group').optional(),
      schedule_id: idField('schedule').optional(),
    },
    page: [jobPage, 'A page of jobs.'],
    problems: [404],
    scope: ({ query: { status = null, job_type = null, group_id = null, schedule_id = null } }) => [
      status,
      job_type,
      group_id,
      schedule_id,
    ],
    read(call, from, limit) {
      const { status, job_type: jobType, group_id: groupId, schedule_id: scheduleId } = call.query
      const wanted = Object.entries({ status, jobType, groupId, scheduleId, before: from?.[0] })
      const given = Object.fromEntries(wanted.filter(([, value]) => value !== undefined))
      const done = withScheduler(call, (scheduler) => listJobs(scheduler, { ...given, limit }))
      return shown(done, (jobs) => fullPage(jobs, limit, toJobView, ({ job_id }) => job_id))
    },
  }),
  listSchedulerQueue: list('/scheduler/queue', {
    summary: 'List the queue in dispatch order',
    role: 'reader',
    allow: requireScheduler,
    page: [jobPage, 'A page of the queue.'],
    problems: [404, 409],
    scope: () => [],
    read(call, from, limit) {
      const after = from?.[0] === undefined ? {} : { after: from[0] }
      const done = withScheduler(call, (scheduler) => listQueue(scheduler, { limit, ...after }))
      return shown(done, ({ jobs }) => fullPage(jobs, limit, toJobView, ({ job_id }) => job_id))
    },
  }),
  readSchedulerJob: get('/scheduler/jobs/{job_id}', {
    summary: 'Get one job with its run and its retry chain',
    role: 'reader',
    params: jobParam,
    answers: { 200: ['The job.', chainView] },
    problems: [400, 404],
    handle: (call) => withScheduler(call, (scheduler) => readWithChain(scheduler, call.params.job_id)),
  }),
  changeSchedulerJob: patch('/scheduler/jobs/{job_id}', {
    summary: 'Change the params or the priority of a queued job',
    role: 'writer',
    params: jobParam,
    body: [changeJobBody, 'The changes'],
    answers: { 200: ['The job.', jobView] },
    problems: [404, 409],
    handle(call) {
      const { job_id } = call.params
      const { params } = call.body
      const found = params && withScheduler(call, (scheduler) => readJob(scheduler, job_id))
      if (found && !found.ok) return found
      const asked = {
        operation: 'change_job',
        may: found ? [{ job_type: found.value.job.job_type, params }] : [],
        runs: params && ((scheduler: Scheduler) => digestChange(scheduler, job_id, params)),
        facts: jobFact(job_id),
      }
      return change(call, asked, toJobView, (scheduler, recorded) => changeJob(scheduler, job_id, call.sent, recorded))
    },
  }),
  placeSchedulerJob: post('/scheduler/jobs/{job_id}/move', {
    summary: 'Move a queued job',
    role: 'writer',
    params: jobParam,
    body: [placeJobBody, 'The new place'],
    answers: { 200: ['The moved job.', jobView] },
    problems: [404, 409],
    handle: (call) =>
      change(call, { operation: 'move_job', facts: jobFact(call.params.job_id) }, toJobView, (scheduler) =>
        placeJob(scheduler, call.params.job_id, call.sent),
      ),
  }),
  cancelSchedulerJob: post('/scheduler/jobs/{job_id}/cancel', {
    summary: 'Cancel a queued job, or end a running one without a retry',
    role: 'writer',
    params: jobParam,
    answers: { 200: ['The job.', cancelledView] },
    problems: [404, 409, ...bodyProblems],
    handle: (call) =>
      change(
        call,
        { operation: 'cancel_job', facts: jobFact(call.params.job_id) },
        ({ ending, ...report }: JobReport & { readonly ending: boolean }) => ({ ...toJobReportView(report), ending }),
        (scheduler) => endJob(scheduler, call.params.job_id),
      ),
  }),
  retrySchedulerJob: post('/scheduler/jobs/{job_id}/retry', {
    summary: 'Repeat a failed, skipped or cancelled job as a new job',
    role: 'writer',
    params: jobParam,
    headers: keyHeader,
    answers: { 200: ['The job of the same request with this key.', jobView], 201: ['The new job.', jobView] },
    problems: [404, 409, ...bodyProblems],
    handle(call) {
      const { job_id } = call.params
      const found = withScheduler(call, (scheduler) => readJob(scheduler, job_id))
      if (!found.ok) return found
      const { job } = found.value
      const planned = withScheduler(call, (scheduler) => runsAsPlanned(scheduler, job))
      if (!planned.ok) return planned
      const work = [{ job_type: job.job_type, params: JSON.parse(job.params) as JsonObject }]
      const idempotencyKey = call.headerKey
      const asked = {
        operation: 'retry_job',
        // A template runs as its author created it; other work may have been added on the machine, or by an administrator.
        may: planned.value ? [] : work,
        runs: (scheduler: Scheduler) => digestWork(scheduler, work),
        creates: 'job',
        facts: { retry_of: encodeId('job', job_id) },
        repeats: { key: keyOfRetry(job_id, idempotencyKey), known: knownJob },
      } as const
      return change(call, asked, toJobView, (scheduler, { newId: jobId, ...recorded }) =>
        retryJob(scheduler, job_id, { jobId, idempotencyKey, ...recorded }),
      )
    },
  }),
})

export const schedulerGroupRoutes = routes({
  listSchedulerGroups: list('/scheduler/groups', {
    summary: 'List job groups, newest first',
    role: 'reader',
    allow: requireScheduler,
    page: [pageView(groupView, 'SchedulerGroupPage'), 'A page.'],
    problems: [404],
    scope: () => [],
    read(call, from, limit) {
      const before = from?.[0] === undefined ? {} : { before: from[0] }
      const done = withScheduler(call, (scheduler) => listGroups(scheduler, { limit, ...before }))
      return shown(done, (groups) => fullPage(groups, limit, toGroupView, ({ group }) => group.group_id))
    },
  }),
  submitSchedulerGroup: post('/scheduler/groups', {
    summary: 'Submit a group of jobs: all or none',
    role: 'writer',
    body: [submitGroupBody, 'The group'],
    answers: {
      200: ['The group of the same request with this key.', submittedGroupView],
      201: ['The group and its jobs.', submittedGroupView],
    },
    problems: [404, 409],
    handle(call) {
      const { jobs } = call.body
      const asked = {
        operation: 'submit_group',
        may: jobs,
        runs: (scheduler: Scheduler) => digestWork(scheduler, jobs),
        creates: 'job_group',
        facts: { jobs: jobs.length },
        repeats: { key: keyOfGroup(call.body), known: readGroupOf },
      } as const
      return change(call, asked, toSubmittedGroupView, (scheduler, { newId: groupId, ...recorded }) =>
        submitGroup(scheduler, call.sent, { groupId, ...recorded }),
      )
    },
  }),
  readSchedulerGroup: get('/scheduler/groups/{group_id}', {
    summary: 'Get one group with its status and the counts of its members',
    role: 'reader',
    params: { group_id: idField('job_group') },
    answers: { 200: ['The group.', groupView] },
    problems: [400, 404],
    handle: (call) => viewFrom(call, toGroupView, (scheduler) => readGroup(scheduler, call.params.group_id)),
  }),
})

const jobFact = (jobId: string) => ({ job_id: encodeId('job', jobId) })

function readWithChain(scheduler: Scheduler, jobId: string): Decision<z.infer<typeof chainView>> {
  const report = readJob(scheduler, jobId)
  if (!report.ok) return report
  const chain = readRetryChain(scheduler, jobId)
  return chain.ok ? accept({ ...toJobReportView(report.value), chain: chain.value.map(toJobReportView) }) : chain
}

function endJob(scheduler: Scheduler, jobId: string): Decision<JobReport & { readonly ending: boolean }> {
  const cancelled = cancelJob(scheduler, jobId)
  if (cancelled.ok) return accept({ job: cancelled.value, run: null, ending: false })
  if (cancelled.code !== 'scheduler.job.not_queued') return cancelled
  const asked = requestStop(scheduler, jobId)
  if (!asked.ok) return asked
  const report = readJob(scheduler, jobId)
  return report.ok ? accept({ ...report.value, ending: true }) : report
}

function describe(scheduler: Scheduler, api: SchedulerApi): Decision<z.infer<typeof statusView>> {
  const status = readStatus(scheduler)
  if (!status.ok) return status
  const { ready, held, inFlight, reservation } = status.value
  const stopped = api.stopped()
  return accept({
    running: stopped === undefined,
    stopped_because: stopped ?? null,
    workers: scheduler.settings.workers,
    ready,
    held,
    in_flight: inFlight,
    reservation: reservation && toReservationView(reservation),
  })
}
