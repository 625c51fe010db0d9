/** The public API of `src/api`. */
export { createApi, describeAllRoutes } from './api.ts'
export type { Answered } from './api-deps.ts'
export type { SchedulerApi } from './scheduler-api.ts'
export { formatApi } from './openapi.ts'
export { webhookPath } from './webhook-routes.ts'
export { type ServedApi, serve } from './server.ts'
