/** The scheduler itself over HTTP: how it is, and whether its file is sound. */
import { createRoute, z } from '@hono/zod-openapi'
import type { Hono } from 'hono'
import {
  listJobs,
  listQueue,
  readPlans,
  reservationView,
  type Scheduler,
  selfCheckView,
  toReservationView,
  toSelfCheckView,
} from '#domains/scheduler'
import { accept, type Decision } from '#kernel/refusal'
import type { ApiLimits } from './api-deps.ts'
import type { ApiEnv } from './request-context.ts'
import { needs } from './route-access.ts'
import { headOf } from './route-head.ts'
import { jsonAnswer, newRouter, problems, queryOf, refused } from './route-kit.ts'
import { requireScheduler, type SchedulerRouteDeps, type SchedulerApi, withScheduler } from './scheduler-api.ts'
import { schedulerGroupRoutes } from './scheduler-group-routes.ts'
import { schedulerJobRoutes } from './scheduler-job-routes.ts'
import { schedulerLogRoutes } from './scheduler-log-routes.ts'
import { schedulerScheduleRoutes } from './scheduler-schedule-routes.ts'
import { schedulerSlotRoutes } from './scheduler-slot-routes.ts'
import { schedulerTemplateRoutes } from './scheduler-template-routes.ts'

const reads = headOf('scheduler', needs('reader', 'org'))
const administers = headOf('scheduler', needs('admin', 'org'))

const statusView = z
  .object({
    running: z.boolean(),
    stopped_because: z.string().nullable(),
    workers: z.int(),
    ready: z.int().meta({ description: 'Jobs that may start.' }),
    held: z.int().meta({ description: 'Jobs that wait for a time, a turn or a direct start.' }),
    in_flight: z.int(),
    reservation: reservationView.nullable().meta({ description: 'While there is one, the queue starts nothing.' }),
  })
  .meta({ id: 'SchedulerStatus' })

const getStatus = createRoute({
  ...reads('get', '/scheduler', 'describeScheduler', 'How the scheduler of this server is'),
  request: { query: queryOf({}) },
  responses: { 200: jsonAnswer(statusView, 'How it is.'), ...problems(404, 422) },
})
const getCheck = createRoute({
  ...administers('get', '/scheduler/check', 'checkScheduler', 'Ask the file every question whose answer must be empty'),
  request: { query: queryOf({}) },
  responses: { 200: jsonAnswer(selfCheckView, 'What was found.'), ...problems(404, 409, 422) },
})
export function schedulerRoutes(
  deps: SchedulerRouteDeps,
  limits: Pick<ApiLimits, 'heartbeatMs' | 'streamsPerKeyMax'>,
): readonly Hono<ApiEnv>[] {
  const own = newRouter()
    .openapi(getStatus, (c) => {
      const done = withScheduler(c, deps, describe)
      return done.ok ? c.json(done.value, 200) : refused(c, done)
    })
    .openapi(getCheck, async (c) => {
      const face = requireScheduler(c, deps)
      const done = face.ok ? await face.value.check() : face
      return done.ok ? c.json(toSelfCheckView(done.value), 200) : refused(c, done)
    })
  return [
    own,
    schedulerLogRoutes(deps, limits),
    schedulerJobRoutes(deps),
    schedulerTemplateRoutes(deps),
    schedulerScheduleRoutes(deps),
    schedulerGroupRoutes(deps),
    schedulerSlotRoutes(deps),
  ]
}

function describe(scheduler: Scheduler, face: SchedulerApi): Decision<z.infer<typeof statusView>> {
  const queue = listQueue(scheduler, { limit: 1 })
  if (!queue.ok) return queue
  const running = listJobs(scheduler, { state: 'running', limit: 500 })
  if (!running.ok) return running
  const plans = readPlans(scheduler)
  if (!plans.ok) return plans
  const { reservation } = plans.value
  const stopped = face.stopped()
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
