/** The scheduler over HTTP: its status and self-check, jobs (submit, read, change, move, cancel, repeat) and groups. */
import { z } from '@hono/zod-openapi'
import { idField, pageView } from '#contract'
import {
  cancelJob,
  changeJob,
  changeJobBody,
  groupView,
  jobFilters,
  type JobReport,
  jobReportView,
  jobView,
  listGroups,
  listJobs,
  listQueue,
  placeJob,
  placeJobBody,
  readGroup,
  readJob,
  readPlans,
  readRetryChain,
  requestStop,
  reservationView,
  retryJob,
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
import { accept, type Decision } from '#kernel/refusal'
import type { SchedulerApi } from './api-deps.ts'
import { bodyProblems } from './problem.ts'
import { routes, shown } from './resource.ts'
import {
  fullPage,
  get,
  jobParam,
  list,
  mayRun,
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
  .extend({ chain: z.array(jobReportView).meta({ description: 'From the original to its newest retry.' }) })
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
    answers: { 201: ['The queued job.', jobView] },
    problems: [404, 409],
    handle: (call) =>
      viewFrom(call, toJobView, (scheduler) => {
        const allowed = mayRun(call, scheduler, [call.body])
        return allowed.ok ? submitJob(scheduler, call.sent) : allowed
      }),
  }),
  listSchedulerJobs: list('/scheduler/jobs', {
    summary: 'List jobs, newest first',
    role: 'reader',
    allow: requireScheduler,
    query: {
      state: z.enum(jobFilters).optional().meta({ example: 'finished' }),
      job_type: z.string().optional().meta({ example: 'report' }),
      group_id: idField('job_group').optional(),
      schedule_id: idField('schedule').optional(),
    },
    page: [jobPage, 'A page of jobs.'],
    problems: [404],
    scope: ({ query: { state = null, job_type = null, group_id = null, schedule_id = null } }) => [
      state,
      job_type,
      group_id,
      schedule_id,
    ],
    read(call, from, limit) {
      const { state, job_type: jobType, group_id: groupId, schedule_id: scheduleId } = call.query
      const wanted = Object.entries({ state, jobType, groupId, scheduleId, before: from?.[0] })
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
      return viewFrom(call, toJobView, (scheduler) => {
        const found = call.sent.params === undefined ? undefined : readJob(scheduler, job_id)
        if (found && !found.ok) return found
        const allowed = mayRun(call, scheduler, found ? [{ job_type: found.value.job.job_type }] : [])
        return allowed.ok ? changeJob(scheduler, job_id, call.sent) : allowed
      })
    },
  }),
  placeSchedulerJob: post('/scheduler/jobs/{job_id}/move', {
    summary: 'Move a queued job',
    role: 'writer',
    params: jobParam,
    body: [placeJobBody, 'The new place'],
    answers: { 200: ['The moved job.', jobView] },
    problems: [404, 409],
    handle: (call) => viewFrom(call, toJobView, (scheduler) => placeJob(scheduler, call.params.job_id, call.sent)),
  }),
  cancelSchedulerJob: post('/scheduler/jobs/{job_id}/cancel', {
    summary: 'Cancel a queued job, or end a running one without a retry',
    role: 'writer',
    params: jobParam,
    answers: { 200: ['The job.', cancelledView] },
    problems: [404, 409, ...bodyProblems],
    handle: (call) =>
      shown(
        withScheduler(call, (scheduler) => endJob(scheduler, call.params.job_id)),
        ({ ending, ...report }) => ({ ...toJobReportView(report), ending }),
      ),
  }),
  retrySchedulerJob: post('/scheduler/jobs/{job_id}/retry', {
    summary: 'Repeat a failed, skipped or cancelled job as a new job',
    role: 'writer',
    params: jobParam,
    answers: { 201: ['The new job.', jobView] },
    problems: [404, 409, ...bodyProblems],
    handle: (call) => viewFrom(call, toJobView, (scheduler) => retryJob(scheduler, call.params.job_id)),
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
    answers: { 201: ['The group and its jobs.', submittedGroupView] },
    problems: [404],
    handle: (call) =>
      viewFrom(call, toSubmittedGroupView, (scheduler) => {
        const allowed = mayRun(call, scheduler, call.body.jobs)
        return allowed.ok ? submitGroup(scheduler, call.sent) : allowed
      }),
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
  const queue = listQueue(scheduler, { limit: 1 })
  if (!queue.ok) return queue
  const running = listJobs(scheduler, { state: 'running', limit: 500 })
  if (!running.ok) return running
  const plans = readPlans(scheduler)
  if (!plans.ok) return plans
  const { reservation } = plans.value
  const stopped = api.stopped()
  return accept({
    running: stopped === undefined,
    stopped_because: stopped ?? null,
    workers: scheduler.settings.workers,
    ready: queue.value.ready,
    held: queue.value.held,
    in_flight: running.value.length,
    reservation: reservation && toReservationView(reservation),
  })
}
