/** Assembles the HTTP API: the guards in order, then the routes. */
import { OpenAPIHono } from '@hono/zod-openapi'
import type { MiddlewareHandler } from 'hono'
import { drawnAhead } from '#kernel/ids'
import { type FeedHub, openFeedHub } from '#store'
import { type ApiDeps, type ApiLimits, limitsOf } from './api-deps.ts'
import { agentRunRoutes } from './agent-run-routes.ts'
import { approvalRoutes } from './approval-routes.ts'
import { artifactRoutes } from './artifact-routes.ts'
import { auditRoutes } from './audit-routes.ts'
import { boardRoutes } from './board-routes.ts'
import { reportRoutes } from './report-routes.ts'
import { bodyGuard } from './body.ts'
import { budgetRoutes } from './budget-routes.ts'
import { swarmRoutes } from './swarm-routes.ts'
import { authentication, authorization, type BadBearers, openBadBearers, rateLimit } from './caller.ts'
import { commandRoutes } from './command-routes.ts'
import { connectorRoutes } from './connector-routes.ts'
import { eventRoutes, toStreamedEvent } from './event-routes.ts'
import { openStreams, type StreamedEvent, type Streams } from './event-stream.ts'
import { isWriteFault, judgeFault } from './fault.ts'
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
import { flowRoutes } from './flow-routes.ts'
import { flowWorkerRoutes } from './flow-worker-routes.ts'
import { healthRoutes, metricsRoutes, openHealthCheck } from './health-routes.ts'
import { identityRoutes } from './identity-routes.ts'
import { mcpChallenge, mcpRoutes, oauthResourceRoutes } from './mcp-routes.ts'
import { memoryRoutes } from './memory-routes.ts'
import { missionActionRoutes } from './mission-action-routes.ts'
import { missionRoutes } from './mission-routes.ts'
import { missionWorkerRoutes } from './mission-worker-routes.ts'
import { notificationRoutes } from './notification-routes.ts'
import { describeApi, type OpenApiDocument } from './openapi.ts'
import { openPageCursors, type PageCursors } from './page-cursor.ts'
import { recipeRoutes } from './recipe-routes.ts'
import { openReference, type Reference, referenceRoutes } from './reference-routes.ts'
import { preflightRoutes } from './preflight-routes.ts'
import type { Routes } from './resource.ts'
import { commandScheduleRoutes } from './command-schedule-routes.ts'
import { openTurns, openWaiters, type SchedulerRouteDeps } from './scheduler-api.ts'
import { schedulerGroupRoutes, schedulerJobRoutes, schedulerStatusRoutes } from './scheduler-job-routes.ts'
import { schedulerLogRoutes } from './scheduler-log-routes.ts'
import { schedulerScheduleRoutes, schedulerTemplateRoutes } from './scheduler-plan-routes.ts'
import { schedulerSlotRoutes } from './scheduler-slot-routes.ts'
import { signalRoutes } from './signal-routes.ts'
import { stopRoutes } from './stop-routes.ts'
import { openWebhookSources, webhookRoutes } from './webhook-routes.ts'

/** The subjects of the routes, in the order of the reference. */
const tags = [
  ['server', 'The server itself.'],
  ['identity', 'People, workspaces and keys.'],
  ['commands', 'Governed work: requested, decided, executed and explained.'],
  ['agents', 'Runs of agents, their steps and messages.'],
  ['stops', 'Stops of agents.'],
  ['approvals', 'Decisions that people make.'],
  ['artifacts', 'Results of work: content, lineage and publication.'],
  ['budgets', 'What work may cost, and what it has cost.'],
  ['swarms', 'Several agents on one objective.'],
  ['missions', 'Plans of tasks towards a goal.'],
  ['mission-tasks', 'Tasks of missions that outside workers claim and run.'],
  ['flow', 'Datasets that jobs keep up to date.'],
  ['flow-tasks', 'Tasks of dataset jobs that workers and functions run.'],
  ['schedules', 'Commands that are submitted on a schedule.'],
  ['connectors', 'Connections to other systems, and their calls.'],
  ['mcp', 'The tools of agents over the Model Context Protocol.'],
  ['memory', 'Memories, the consents behind them, and erasure.'],
  ['audit', 'The audit log.'],
  ['scheduler', 'Jobs and schedules of one machine. Off unless the server runs a scheduler.'],
  ['events', 'Live events.'],
] as const

/** What `createApi` opens for the groups of routes. */
type Opened = ApiDeps & {
  readonly streams: Streams
  readonly hub: FeedHub<StreamedEvent>
  readonly limits: ApiLimits
  readonly badBearers: BadBearers
  readonly scheduling: SchedulerRouteDeps
  readonly reference: Reference
  readonly failedWriteAgoMs: () => number
}

/** A group of routes with its dependencies. A group whose dependencies are missing is described, but not mounted. */
const group = <Deps>(routes: Routes<Deps>, depsOf: (opened: Opened) => Deps | undefined) => ({
  configs: routes.configs,
  mount(app: Api, opened: Opened, cursors: PageCursors) {
    const deps = depsOf(opened)
    if (deps) app.route('/', routes.mount(deps, cursors))
  },
})

const groups = [
  group(healthRoutes, (opened) => ({ checkHealth: openHealthCheck(opened, opened.limits.healthTimeoutMs) })),
  group(identityRoutes, (opened) => opened),
  group(metricsRoutes, ({ renderMetrics }) => renderMetrics && { renderMetrics }),
  group(commandRoutes, ({ db, work }) => work && { db, ...work }),
  group(signalRoutes, ({ work }) => work),
  group(agentRunRoutes, ({ work }) => work?.agents && { agents: work.agents }),
  group(preflightRoutes, ({ work }) => work?.agents && { agents: work.agents }),
  group(stopRoutes, ({ work }) => work),
  group(
    webhookRoutes,
    ({ work, defaultWorkspace }) => work && openWebhookSources(work.commands, work.webhooks, defaultWorkspace),
  ),
  group(mcpRoutes, ({ mcp }) => mcp && { mcp }),
  group(oauthResourceRoutes, ({ oauthResource }) => oauthResource),
  group(approvalRoutes, ({ work }) => work),
  group(artifactRoutes, ({ work }) => work?.artifacts && { ...work, artifacts: work.artifacts }),
  group(budgetRoutes, (opened) => opened),
  group(swarmRoutes, (opened) => opened),
  group(missionRoutes, ({ work }) => work),
  group(
    missionWorkerRoutes,
    ({ work, feed: { notices, pollMs }, closing }) => work && { ...work, polls: { notices, pollMs, closing } },
  ),
  group(
    flowWorkerRoutes,
    ({ work, feed: { notices, pollMs }, closing }) =>
      work?.flow && { flow: work.flow, polls: { notices, pollMs, closing } },
  ),
  group(flowRoutes, ({ work }) => work?.flow && { flow: work.flow }),
  group(missionActionRoutes, ({ work }) => work),
  group(recipeRoutes, ({ work }) => work),
  group(boardRoutes, ({ work }) => work),
  group(reportRoutes, ({ work }) => work),
  group(commandScheduleRoutes, ({ work }) => work?.schedules && { schedules: work.schedules }),
  group(auditRoutes, ({ db, work }) => work && { db, ...work }),
  group(connectorRoutes, ({ work, ...deps }) => work?.connectors && { ...deps, connectors: work.connectors }),
  group(notificationRoutes, (opened) => opened),
  group(memoryRoutes, ({ work }) => work?.memory && { ...work, memory: work.memory }),
  group(eventRoutes, (opened) => ({ ...opened, heartbeatMs: opened.limits.heartbeatMs })),
  ...[
    schedulerStatusRoutes,
    schedulerLogRoutes,
    schedulerJobRoutes,
    schedulerTemplateRoutes,
    schedulerScheduleRoutes,
    schedulerGroupRoutes,
    schedulerSlotRoutes,
  ].map((routes) => group(routes, ({ scheduling }) => scheduling)),
  group(referenceRoutes, (opened) => opened),
]

export type Api = OpenAPIHono<ApiEnv>

export function createApi(deps: ApiDeps): Api {
  const limits = limitsOf(deps.limits)
  const app: Api = new OpenAPIHono<ApiEnv>()
  const badBearers = openBadBearers(limits.badBearersPerMinute, deps.now)
  const [streams, logStreams] = [openStreams(limits.streamsPerKeyMax), openStreams(limits.streamsPerKeyMax)]
  const checkStreams = async () => void (await Promise.all([streams.check(), logStreams.check()]))
  // Another process has changed rights, or the connection of the notices was lost.
  deps.feed.notices?.listen(ACCESS_CHANNEL, () => void checkStreams())
  let failedWriteMs = Number.NEGATIVE_INFINITY
  let table: AccessTable | undefined
  let document: OpenApiDocument | undefined
  const accessTable = () => {
    table ??= openAccessTable(app.openAPIRegistry.definitions)
    return table
  }

  // The order matters: a request rejected by one guard is not read, parsed or looked up by a later one.
  app.use(
    '*',
    requestIds(drawnAhead(deps.randomBytes)),
    accessLog(deps.log, deps.onAnswered),
    responseHeaders(deps.version),
    sameOrigin({ hosts: deps.hosts ?? [], origins: deps.origins ?? [] }),
    routeGuard(app, accessTable),
    mcpChallenge(deps.oauthResource),
    authentication(deps, badBearers),
    rateLimit(limits, deps.now),
    authorization(deps),
    endStreams(checkStreams),
    bodyGuard(limits),
  )
  app.notFound((c) => answerProblem(c, notFound()))
  app.onError((error, c) => {
    const { refusal, bug } = judgeFault(error)
    if (isWriteFault(refusal)) failedWriteMs = performance.now()
    deps.log[bug ? 'error' : 'warn'](
      { ...c.get('ids'), err: error },
      bug ? 'internal error' : 'the database could not answer',
    )
    return answerProblem(c, refusal)
  })

  deps.extraRoutes?.(app)
  const scheduling = {
    ...deps,
    heartbeatMs: limits.heartbeatMs,
    logStreams,
    waiters: openWaiters(),
    inTurn: openTurns(),
  }
  const hub = openFeedHub(deps.db, deps.feed, toStreamedEvent)
  const reference = openReference(() => (document ??= describeApi(app, deps.version, tags)))
  const cursors = openPageCursors(deps.cursorKey)
  const failedWriteAgoMs = () => performance.now() - failedWriteMs
  const opened = { ...deps, limits, badBearers, scheduling, reference, streams, hub, failedWriteAgoMs }
  for (const each of groups) each.mount(app, opened, cursors)
  return app
}

/** The channel of `identity.raise_access_version`. */
const ACCESS_CHANNEL = 'concord_access'

/** Ends the streams that a change of rights has ended, before the change is answered. */
function endStreams(check: () => Promise<void>): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    await next()
    const isChange = c.res.ok && c.req.method !== 'GET' && c.req.method !== 'HEAD'
    if (isChange && c.get('access')?.config?.tags?.includes('identity')) await check()
  }
}

/** Describes all routes without a server, for `openapi.json`. */
export function describeAllRoutes(version: string): OpenApiDocument {
  const app = new OpenAPIHono<ApiEnv>()
  for (const { configs } of groups) for (const config of configs) app.openAPIRegistry.registerPath(config)
  return describeApi(app, version, tags)
}
