/** Assembles the HTTP API: the guards in order, then the routes. */
import { OpenAPIHono } from '@hono/zod-openapi'
import { type ApiDeps, type GovernedWork, limitsOf } from './api-deps.ts'
import { approvalRoutes } from './approval-routes.ts'
import { artifactRoutes } from './artifact-routes.ts'
import { auditRoutes } from './audit-routes.ts'
import { bodyGuard } from './body.ts'
import { authentication, authorization, openBadBearers, rateLimit } from './caller.ts'
import { commandRoutes } from './command-routes.ts'
import { connectorRoutes } from './connector-routes.ts'
import { eventRoutes } from './event-routes.ts'
import { openStreamCount } from './event-stream.ts'
import { judgeFault } from './fault.ts'
import {
  accessLog,
  type AccessTable,
  answerProblem,
  type ApiEnv,
  notFound,
  openAccessTable,
  requestIds,
  responseHeaders,
  routeGuard,
  sameOrigin,
} from './guards.ts'
import { healthRoutes, openHealthCheck } from './health-routes.ts'
import { identityRoutes } from './identity-routes.ts'
import { memoryRoutes } from './memory-routes.ts'
import { notificationRoutes } from './notification-routes.ts'
import { describeApi, type OpenApiDocument } from './openapi.ts'
import { openPageCursors } from './page-cursor.ts'
import { openReference, referenceRoutes } from './reference-routes.ts'
import type { Routes } from './resource.ts'
import { commandScheduleRoutes } from './command-schedule-routes.ts'
import { openWaiters } from './scheduler-api.ts'
import { schedulerGroupRoutes, schedulerJobRoutes, schedulerStatusRoutes } from './scheduler-job-routes.ts'
import { schedulerLogRoutes } from './scheduler-log-routes.ts'
import { schedulerScheduleRoutes, schedulerTemplateRoutes } from './scheduler-plan-routes.ts'
import { schedulerSlotRoutes } from './scheduler-slot-routes.ts'
import { webhookRoutes } from './webhook-routes.ts'

/** The subjects of the routes, in the order of the reference. */
const tags = [
  ['server', 'The server itself.'],
  ['identity', 'People, workspaces and keys.'],
  ['commands', 'Governed work: requested, decided, executed and explained.'],
  ['approvals', 'Decisions that people make.'],
  ['artifacts', 'Results of work: content, lineage and publication.'],
  ['schedules', 'Commands that are submitted on a schedule.'],
  ['connectors', 'Connections to other systems, and their calls.'],
  ['memory', 'Memories, the consents behind them, and erasure.'],
  ['audit', 'The audit log.'],
  ['scheduler', 'Jobs and schedules of one machine. Off unless the server runs a scheduler.'],
  ['events', 'Live events.'],
] as const

const schedulerRoutes = [
  schedulerStatusRoutes,
  schedulerLogRoutes,
  schedulerJobRoutes,
  schedulerTemplateRoutes,
  schedulerScheduleRoutes,
  schedulerGroupRoutes,
  schedulerSlotRoutes,
]

export type Api = OpenAPIHono<ApiEnv>

export function createApi(deps: ApiDeps): Api {
  const limits = limitsOf(deps.limits)
  const app: Api = new OpenAPIHono<ApiEnv>()
  const badBearers = openBadBearers(limits.badBearersPerMinute, deps.now)
  let table: AccessTable | undefined
  let document: OpenApiDocument | undefined
  const accessTable = () => {
    table ??= openAccessTable(app.openAPIRegistry.definitions, deps.publicPaths ?? [])
    return table
  }

  // The order matters: a request rejected by one guard is not read, parsed or looked up by a later one.
  app.use(
    '*',
    requestIds(deps.randomBytes),
    accessLog(deps.log, deps.onAnswered),
    responseHeaders(deps.version),
    sameOrigin({ hosts: deps.hosts ?? [], origins: deps.origins ?? [] }),
    routeGuard(app, accessTable),
    authentication(deps, badBearers),
    rateLimit(limits, deps.now),
    authorization(deps),
    bodyGuard(limits),
  )
  app.notFound((c) => answerProblem(c, notFound()))
  app.onError((error, c) => {
    const { refusal, bug } = judgeFault(error)
    deps.log[bug ? 'error' : 'warn'](
      { ...c.get('ids'), err: error },
      bug ? 'internal error' : 'the database could not answer',
    )
    return answerProblem(c, refusal)
  })

  deps.extraRoutes?.(app)
  const cursors = openPageCursors(deps.cursorKey)
  const mount = <Deps>(routes: Routes<Deps>, given: Deps) => void app.route('/', routes.mount(given, cursors))
  mount(healthRoutes, { checkHealth: openHealthCheck(deps, limits.healthTimeoutMs) })
  mount(identityRoutes, { ...deps, badBearers })
  if (deps.work) mountWork(app, mount, { ...deps, ...deps.work })
  const { heartbeatMs, streamsPerKeyMax } = limits
  mount(eventRoutes, { ...deps, heartbeatMs, streams: openStreamCount(streamsPerKeyMax) })
  const schedulerDeps = { ...deps, heartbeatMs, logStreams: openStreamCount(streamsPerKeyMax), waiters: openWaiters() }
  for (const routes of schedulerRoutes) mount(routes, schedulerDeps)
  mount(referenceRoutes, {
    version: deps.version,
    reference: openReference(() => (document ??= describeApi(app, deps.version, tags))),
  })
  return app
}

type Mount = <Deps>(routes: Routes<Deps>, given: Deps) => void

function mountWork(app: Api, mount: Mount, deps: ApiDeps & GovernedWork): void {
  const { artifacts, connectors, schedules, memory } = deps
  mount(commandRoutes, deps)
  mount(approvalRoutes, deps)
  if (artifacts) mount(artifactRoutes, { ...deps, artifacts })
  if (schedules) mount(commandScheduleRoutes, { schedules })
  mount(auditRoutes, deps)
  if (connectors) mount(connectorRoutes, { ...deps, connectors })
  if (connectors) mount(notificationRoutes, deps)
  app.route('/', webhookRoutes(deps.commands, deps.webhooks))
  if (memory) mount(memoryRoutes, { ...deps, memory })
}

/** Describes all routes without a server, for `openapi.json`. */
export function describeAllRoutes(version: string): OpenApiDocument {
  const all: readonly Pick<Routes<never>, 'configs'>[] = [
    healthRoutes,
    identityRoutes,
    commandRoutes,
    approvalRoutes,
    artifactRoutes,
    commandScheduleRoutes,
    auditRoutes,
    connectorRoutes,
    notificationRoutes,
    memoryRoutes,
    eventRoutes,
    ...schedulerRoutes,
    referenceRoutes,
  ]
  const app = new OpenAPIHono<ApiEnv>()
  for (const { configs } of all) for (const config of configs) app.openAPIRegistry.registerPath(config)
  return describeApi(app, version, tags)
}
