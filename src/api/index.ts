/** The public API of `src/api`. */
export { createApi, describeAllRoutes } from './api.ts'
export { closedToAgents } from './caller.ts'
export type { SchedulerApi } from './api-deps.ts'
export type { Answered } from './guards.ts'
export { formatApi } from './openapi.ts'
export { type ServedApi, serve } from './server.ts'
