/** The door of the API room. */
export { type Api, createApi, describeAllRoutes } from './api.ts'
export {
  type Answered,
  type ApiDeps,
  type ApiLimits,
  type ApiLog,
  defaultLimits,
  type GovernedWork,
  type RuntimeStatus,
  type SchemaVersions,
} from './api-deps.ts'
export { type EventFeedOptions, openEventFeed } from './domain-event-feed.ts'
export type { SchedulerApi } from './scheduler-api.ts'
export { type EventFeed, type FollowEvents, type StreamedEvent, streamEvents } from './event-stream.ts'
export { judgeFault } from './fault.ts'
export { describeApi, formatApi, type OpenApiDocument } from './openapi.ts'
export { openPageCursors, type PageCursors } from './page-cursor.ts'
export { type Problem, problemResponse, statusOf, toProblem } from './problem.ts'
export { answerProblem, type ApiContext, type ApiEnv, principalOf, workspaceOf } from './request-context.ts'
export { needs, needsNothing } from './route-access.ts'
export { webhookPath } from './webhook-routes.ts'
export { type ServedApi, type ServeOptions, serve, serverOptions } from './server.ts'
