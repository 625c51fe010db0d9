/** Schedules over HTTP: templates that come back at their times, in their zone. */
import { createRoute, z } from '@hono/zod-openapi'
import { pageView, parsedField } from '#contract'
import {
  changeSchedule,
  changeScheduleBody,
  createSchedule,
  deleteSchedule,
  firingView,
  nextOccurrences,
  readPlans,
  readSchedule,
  scheduleBody,
  scheduleView,
  toFiringView,
  toScheduleView,
} from '#domains/scheduler'
import { parsePageLimit } from '#kernel/page-limit'
import { accept } from '#kernel/refusal'
import { needs } from './route-access.ts'
import { headOf } from './route-head.ts'
import { bodyProblems, jsonAnswer, jsonBody, newRouter, problems, queryOf, refused } from './route-kit.ts'
import { bodyOf, mayRun, scheduleParam, type SchedulerRouteDeps, withScheduler } from './scheduler-api.ts'

const reads = headOf('scheduler', needs('reader', 'org'))
const writes = headOf('scheduler', needs('writer', 'org'))

const query = queryOf({})

const getSchedules = createRoute({
  ...reads('get', '/scheduler/schedules', 'listSchedulerSchedules', 'All schedules and when they come next'),
  request: { query },
  responses: {
    200: jsonAnswer(pageView(scheduleView, 'SchedulerSchedulePage'), 'All of them.'),
    ...problems(404, 422),
  },
})
const postSchedule = createRoute({
  ...writes('post', '/scheduler/schedules', 'createSchedulerSchedule', 'Let a template come back at its times'),
  request: { query, body: jsonBody(scheduleBody, 'The schedule') },
  responses: { 201: jsonAnswer(scheduleView, 'The schedule.'), ...problems(404, 409, ...bodyProblems) },
})
const scheduleReportView = z
  .object({
    schedule: scheduleView,
    firings: z.array(firingView).meta({ description: 'The newest due times, decided.' }),
  })
  .meta({ id: 'SchedulerScheduleReport' })
const getSchedule = createRoute({
  ...reads(
    'get',
    '/scheduler/schedules/{schedule_id}',
    'readSchedulerSchedule',
    'One schedule and what became of its newest due times',
  ),
  request: { query, params: scheduleParam },
  responses: { 200: jsonAnswer(scheduleReportView, 'The schedule.'), ...problems(400, 404, 422) },
})
const patchSchedule = createRoute({
  ...writes('patch', '/scheduler/schedules/{schedule_id}', 'changeSchedulerSchedule', 'Change a schedule, from now on'),
  request: { query, params: scheduleParam, body: jsonBody(changeScheduleBody, 'What changes') },
  responses: { 200: jsonAnswer(scheduleView, 'The schedule.'), ...problems(404, 409, ...bodyProblems) },
})
const dropSchedule = createRoute({
  ...writes(
    'delete',
    '/scheduler/schedules/{schedule_id}',
    'deleteSchedulerSchedule',
    'End a schedule; the jobs it made stay',
  ),
  request: { query, params: scheduleParam },
  responses: { 200: jsonAnswer(scheduleView, 'The schedule, ended.'), ...problems(404, ...bodyProblems) },
})
const switchTo = (verb: 'enable' | 'disable', operationId: string, summary: string) =>
  createRoute({
    ...writes('post', `/scheduler/schedules/{schedule_id}/${verb}` as const, operationId, summary),
    request: { query, params: scheduleParam },
    responses: { 200: jsonAnswer(scheduleView, 'The schedule.'), ...problems(404, 409, ...bodyProblems) },
  })
const postEnable = switchTo('enable', 'enableSchedulerSchedule', 'Let a schedule fire again, from now on')
const postDisable = switchTo('disable', 'disableSchedulerSchedule', 'Keep a schedule from firing')

const timesView = z
  .object({ timezone: z.string(), times: z.array(z.string().meta({ format: 'date-time' })) })
  .meta({ id: 'SchedulerTimes' })
const getNext = createRoute({
  ...reads('get', '/scheduler/schedules/{schedule_id}/next', 'nextSchedulerTimes', 'The next times of a schedule'),
  request: {
    query: queryOf({
      count: parsedField(parsePageLimit)
        .optional()
        .meta({ type: 'integer', minimum: 1, maximum: 500, default: 5, example: 5 }),
    }),
    params: scheduleParam,
  },
  responses: { 200: jsonAnswer(timesView, 'In UTC.'), ...problems(400, 404, 422) },
})

export function schedulerScheduleRoutes(deps: SchedulerRouteDeps) {
  return newRouter()
    .openapi(getSchedules, (c) => {
      const done = withScheduler(c, deps, readPlans)
      return done.ok
        ? c.json({ items: done.value.schedules.map(toScheduleView), next_cursor: null }, 200)
        : refused(c, done)
    })
    .openapi(postSchedule, async (c) => {
      const body = await bodyOf<z.input<typeof scheduleBody>>(c)
      const { template_id, param_overrides } = c.req.valid('json')
      const done = withScheduler(c, deps, (scheduler) => {
        const allowed = mayRun(c, scheduler, [{ template_id, params: param_overrides ?? undefined }])
        return allowed.ok ? createSchedule(scheduler, body) : allowed
      })
      return done.ok ? c.json(toScheduleView(done.value), 201) : refused(c, done)
    })
    .openapi(getSchedule, (c) => {
      const done = withScheduler(c, deps, (scheduler) => readSchedule(scheduler, c.req.valid('param').schedule_id))
      if (!done.ok) return refused(c, done)
      const { schedule, firings } = done.value
      return c.json({ schedule: toScheduleView(schedule), firings: firings.map(toFiringView) }, 200)
    })
    .openapi(patchSchedule, async (c) => {
      const body = await bodyOf<z.input<typeof changeScheduleBody>>(c)
      const { schedule_id } = c.req.valid('param')
      const done = withScheduler(c, deps, (scheduler) => {
        const found = readSchedule(scheduler, schedule_id, 1)
        if (!found.ok) return found
        const { template_id = found.value.schedule.template_id } = c.req.valid('json')
        // Overrides that are there already would come over another template as well.
        const isOther = body.param_overrides != null || body.template_id !== undefined
        const allowed = mayRun(c, scheduler, [{ template_id, params: isOther ? body : undefined }])
        return allowed.ok ? changeSchedule(scheduler, schedule_id, body) : allowed
      })
      return done.ok ? c.json(toScheduleView(done.value), 200) : refused(c, done)
    })
    .openapi(dropSchedule, (c) => {
      const done = withScheduler(c, deps, (scheduler) => deleteSchedule(scheduler, c.req.valid('param').schedule_id))
      return done.ok ? c.json(toScheduleView(done.value), 200) : refused(c, done)
    })
    .openapi(postEnable, (c) => {
      const { schedule_id } = c.req.valid('param')
      const done = withScheduler(c, deps, (scheduler) => changeSchedule(scheduler, schedule_id, { enabled: true }))
      return done.ok ? c.json(toScheduleView(done.value), 200) : refused(c, done)
    })
    .openapi(postDisable, (c) => {
      const { schedule_id } = c.req.valid('param')
      const done = withScheduler(c, deps, (scheduler) => changeSchedule(scheduler, schedule_id, { enabled: false }))
      return done.ok ? c.json(toScheduleView(done.value), 200) : refused(c, done)
    })
    .openapi(getNext, (c) => {
      const { schedule_id } = c.req.valid('param')
      const { count = 5 } = c.req.valid('query')
      const done = withScheduler(c, deps, (scheduler) => {
        const found = readSchedule(scheduler, schedule_id, 1)
        if (!found.ok) return found
        const { cron_expression, timezone } = found.value.schedule
        const times = nextOccurrences(cron_expression, timezone, scheduler.deps.now(), count)
        return times.ok ? accept({ timezone, times: times.value.map((time) => time.toISOString()) }) : times
      })
      return done.ok ? c.json(done.value, 200) : refused(c, done)
    })
}
