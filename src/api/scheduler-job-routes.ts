/** The jobs of this machine over HTTP: added, looked at, reordered, cancelled, done again. */
import { createRoute, z } from '@hono/zod-openapi'
import { idField, pageView } from '#contract'
import {
  cancelJob,
  changeJob,
  changeJobBody,
  type JobReport,
  jobFilters,
  jobReportView,
  jobView,
  listJobs,
  listQueue,
  placeJob,
  placeJobBody,
  readJob,
  readRetryChain,
  requestStop,
  retryJob,
  type Scheduler,
  type StoredJob,
  submitJob,
  type SubmitJob,
  submitJobBody,
  toJobReportView,
  toJobView,
} from '#domains/scheduler'
import { accept, type Decision } from '#kernel/refusal'
import { openPageCursors } from './page-cursor.ts'
import { needs } from './route-access.ts'
import { headOf } from './route-head.ts'
import { bodyProblems, jsonAnswer, jsonBody, limitOf, newRouter, problems, queryOf, refused } from './route-kit.ts'
import {
  bodyOf,
  closePage,
  jobParam,
  mayRun,
  openPage,
  type SchedulerRouteDeps,
  schedulerPage,
  withScheduler,
} from './scheduler-api.ts'

const reads = headOf('scheduler', needs('reader', 'org'))
const writes = headOf('scheduler', needs('writer', 'org'))

const jobPage = pageView(jobView, 'SchedulerJobPage')
const chainView = jobReportView
  .extend({ chain: z.array(jobReportView).meta({ description: 'From the original to its newest retry.' }) })
  .meta({ id: 'SchedulerJobReport' })
const cancelledView = jobReportView
  .extend({ ending: z.boolean().meta({ description: 'It runs; the scheduler was asked to end it.' }) })
  .meta({ id: 'SchedulerCancelledJob' })

const postJob = createRoute({
  ...writes(
    'post',
    '/scheduler/jobs',
    'submitSchedulerJob',
    'Put a job at the end of its priority',
    'A type whose jobs name their own command needs an administrator.',
  ),
  request: { query: queryOf({}), body: jsonBody(submitJobBody, 'The job') },
  responses: { 201: jsonAnswer(jobView, 'The queued job.'), ...problems(404, 409, ...bodyProblems) },
})

const getJobs = createRoute({
  ...reads('get', '/scheduler/jobs', 'listSchedulerJobs', 'Jobs, newest first'),
  request: {
    query: queryOf({
      ...schedulerPage,
      state: z.enum(jobFilters).optional().meta({ example: 'finished' }),
      job_type: z.string().optional().meta({ example: 'report' }),
      group_id: idField('job_group').optional(),
      schedule_id: idField('schedule').optional(),
    }),
  },
  responses: { 200: jsonAnswer(jobPage, 'A page of jobs.'), ...problems(400, 404, 422) },
})

const getQueue = createRoute({
  ...reads('get', '/scheduler/queue', 'listSchedulerQueue', 'What waits, in the order of dispatch'),
  request: { query: queryOf(schedulerPage) },
  responses: { 200: jsonAnswer(jobPage, 'A page of the queue.'), ...problems(400, 404, 409, 422) },
})

const getJob = createRoute({
  ...reads('get', '/scheduler/jobs/{job_id}', 'readSchedulerJob', 'One job, its run, and the chain of its retries'),
  request: { query: queryOf({}), params: jobParam },
  responses: { 200: jsonAnswer(chainView, 'The job.'), ...problems(400, 404, 422) },
})

const patchJob = createRoute({
  ...writes(
    'patch',
    '/scheduler/jobs/{job_id}',
    'changeSchedulerJob',
    'Change the params or the priority of a job that waits',
  ),
  request: { query: queryOf({}), params: jobParam, body: jsonBody(changeJobBody, 'What changes') },
  responses: { 200: jsonAnswer(jobView, 'The job.'), ...problems(404, 409, ...bodyProblems) },
})

const postMove = createRoute({
  ...writes('post', '/scheduler/jobs/{job_id}/move', 'placeSchedulerJob', 'Change the place of a job that waits'),
  request: { query: queryOf({}), params: jobParam, body: jsonBody(placeJobBody, 'Where to') },
  responses: { 200: jsonAnswer(jobView, 'The job in its new place.'), ...problems(404, 409, ...bodyProblems) },
})

const postCancel = createRoute({
  ...writes(
    'post',
    '/scheduler/jobs/{job_id}/cancel',
    'cancelSchedulerJob',
    'Take a job out of the queue, or end it if it runs; it is not repeated',
  ),
  request: { query: queryOf({}), params: jobParam },
  responses: { 200: jsonAnswer(cancelledView, 'The job.'), ...problems(404, 409, ...bodyProblems) },
})

const postRetry = createRoute({
  ...writes(
    'post',
    '/scheduler/jobs/{job_id}/retry',
    'retrySchedulerJob',
    'Do a failed, skipped or cancelled job once more, as a new job',
  ),
  request: { query: queryOf({}), params: jobParam },
  responses: { 201: jsonAnswer(jobView, 'The new job.'), ...problems(404, 409, ...bodyProblems) },
})

export function schedulerJobRoutes(deps: SchedulerRouteDeps) {
  const cursors = openPageCursors(deps.cursorKey)
  return newRouter()
    .openapi(postJob, async (c) => {
      const body = await bodyOf<SubmitJob>(c)
      const done = withScheduler(c, deps, (scheduler) => {
        const allowed = mayRun(c, scheduler, [c.req.valid('json')])
        return allowed.ok ? submitJob(scheduler, body) : allowed
      })
      return done.ok ? c.json(toJobView(done.value), 201) : refused(c, done)
    })
    .openapi(getJobs, (c) => {
      const query = c.req.valid('query')
      const { state, job_type: jobType, group_id: groupId, schedule_id: scheduleId } = query
      const scope = ['listSchedulerJobs', state ?? null, jobType ?? null, groupId ?? null, scheduleId ?? null]
      const limit = limitOf(query)
      const done = withScheduler(c, deps, (scheduler) => {
        const before = openPage(cursors, scope, query.cursor)
        if (!before.ok) return before
        const wanted = { state, jobType, groupId, scheduleId, before: before.value }
        const given = Object.entries(wanted).filter(([, value]) => value !== undefined)
        return listJobs(scheduler, { ...Object.fromEntries(given), limit })
      })
      const seal = (job: StoredJob) => cursors.seal(scope, [job.job_id])
      return done.ok ? c.json(closePage(done.value, limit, { view: toJobView, seal }), 200) : refused(c, done)
    })
    .openapi(getQueue, (c) => {
      const query = c.req.valid('query')
      const scope = ['listSchedulerQueue']
      const limit = limitOf(query)
      const done = withScheduler(c, deps, (scheduler) => {
        const after = openPage(cursors, scope, query.cursor)
        if (!after.ok) return after
        return listQueue(scheduler, { limit, ...(after.value === undefined ? {} : { after: after.value }) })
      })
      const seal = (job: StoredJob) => cursors.seal(scope, [job.job_id])
      return done.ok ? c.json(closePage(done.value.jobs, limit, { view: toJobView, seal }), 200) : refused(c, done)
    })
    .openapi(getJob, (c) => {
      const { job_id } = c.req.valid('param')
      const done = withScheduler(c, deps, (scheduler) => readWithChain(scheduler, job_id))
      return done.ok ? c.json(done.value, 200) : refused(c, done)
    })
    .openapi(patchJob, async (c) => {
      const body = await bodyOf<z.input<typeof changeJobBody>>(c)
      const { job_id } = c.req.valid('param')
      const done = withScheduler(c, deps, (scheduler) => {
        const found = body.params === undefined ? undefined : readJob(scheduler, job_id)
        if (found && !found.ok) return found
        const allowed = mayRun(c, scheduler, found ? [{ job_type: found.value.job.job_type }] : [])
        return allowed.ok ? changeJob(scheduler, job_id, body) : allowed
      })
      return done.ok ? c.json(toJobView(done.value), 200) : refused(c, done)
    })
    .openapi(postMove, async (c) => {
      const body = await bodyOf<z.input<typeof placeJobBody>>(c)
      const done = withScheduler(c, deps, (scheduler) => placeJob(scheduler, c.req.valid('param').job_id, body))
      return done.ok ? c.json(toJobView(done.value), 200) : refused(c, done)
    })
    .openapi(postCancel, (c) => {
      const done = withScheduler(c, deps, (scheduler) => endJob(scheduler, c.req.valid('param').job_id))
      if (!done.ok) return refused(c, done)
      const { ending, ...report } = done.value
      return c.json({ ...toJobReportView(report), ending }, 200)
    })
    .openapi(postRetry, (c) => {
      const done = withScheduler(c, deps, (scheduler) => retryJob(scheduler, c.req.valid('param').job_id))
      return done.ok ? c.json(toJobView(done.value), 201) : refused(c, done)
    })
}

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
