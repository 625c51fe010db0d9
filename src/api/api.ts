/** The whole HTTP API as one function of a request: guards in their order, then the routes. */
import { OpenAPIHono } from '@hono/zod-openapi'
import type { Hono } from 'hono'
import { accessLog } from './access-log.ts'
import { type ApiDeps, type GovernedWork, limitsOf } from './api-deps.ts'
import { agentActionRoutes } from './agent-action-routes.ts'
import { approvalRoutes } from './approval-routes.ts'
import { artifactRoutes } from './artifact-routes.ts'
import { auditRoutes } from './audit-routes.ts'
import { type BadBearers, openBadBearers } from './bad-bearers.ts'
import { bodyGuard } from './body-guard.ts'
import { authentication, authorization } from './caller.ts'
import { commandRoutes } from './command-routes.ts'
import { commandStoryRoutes } from './command-story-routes.ts'
import { connectorRoutes } from './connector-routes.ts'
import { eventRoutes } from './event-routes.ts'
import { judgeFault } from './fault.ts'
import { healthRoutes } from './health-routes.ts'
import { identityRoutes } from './identity-routes.ts'
import { memoryCandidateRoutes } from './memory-candidate-routes.ts'
import { memoryForgetRoutes } from './memory-forget-routes.ts'
import { memoryRoutes } from './memory-routes.ts'
import { describeApi, type OpenApiDocument } from './openapi.ts'
import { memberRoutes } from './member-routes.ts'
import { notificationRoutes } from './notification-routes.ts'
import { peopleRoutes } from './people-routes.ts'
import { rateLimit } from './rate-limit.ts'
import { referenceRoutes } from './reference-routes.ts'
import { answerProblem, type ApiEnv, requestIds } from './request-context.ts'
import { responseHeaders } from './response-headers.ts'
import { type AccessTable, openAccessTable } from './route-access.ts'
import { notFound, routeGuard } from './route-guard.ts'
import { sameOrigin } from './same-origin.ts'
import { scheduleRoutes } from './schedule-routes.ts'
import { schedulerRoutes } from './scheduler-routes.ts'
import { taskTypeRoutes } from './task-type-routes.ts'
import { webhookRoutes } from './webhook-routes.ts'

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

  // The order is the promise: nothing is read, parsed or looked up for a caller that an earlier guard turns away.
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
      bug ? 'a fault of ours' : 'the database could not answer',
    )
    return answerProblem(c, refusal)
  })

  deps.extraRoutes?.(app)
  app.route('/', healthRoutes(deps, limits.healthTimeoutMs))
  app.route('/', identityRoutes(deps))
  mountPeople(app, deps, badBearers)
  if (deps.work) mountWork(app, deps, deps.work)
  app.route('/', eventRoutes(deps, limits))
  for (const router of schedulerRoutes(deps, limits)) app.route('/', router)
  app.route(
    '/',
    referenceRoutes(deps.version, () => (document ??= describeApi(app, deps.version))),
  )
  return app
}

function mountPeople(app: Api, deps: ApiDeps, badBearers: BadBearers): void {
  const routers: readonly Hono<ApiEnv>[] = [peopleRoutes(deps, badBearers), memberRoutes(deps)]
  for (const router of routers) app.route('/', router)
}

function mountWork(app: Api, deps: ApiDeps, work: GovernedWork): void {
  const { commands, approvals, artifacts, connectors, schedules, webhooks, memory } = work
  // The routers' exact types say nothing more here and are too deep for the compiler to add up.
  const routers: readonly Hono<ApiEnv>[] = [
    taskTypeRoutes(commands),
    commandRoutes(deps, commands),
    commandStoryRoutes(deps, commands),
    agentActionRoutes(commands),
    approvalRoutes({ ...deps, approvals }),
    ...(artifacts ? [artifactRoutes(deps, commands, artifacts)] : []),
    ...(schedules ? [scheduleRoutes(deps, schedules)] : []),
    auditRoutes(deps, commands),
    ...(connectors ? [connectorRoutes({ ...deps, connectors }), notificationRoutes(deps)] : []),
    webhookRoutes(commands, webhooks),
    ...(memory
      ? [
          memoryRoutes(commands, memory),
          memoryCandidateRoutes({ ...deps, approvals, memory }),
          memoryForgetRoutes(commands, memory),
        ]
      : []),
  ]
  for (const router of routers) app.route('/', router)
}
