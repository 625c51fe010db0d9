/** The exports of this room. */
export { type McpCaller, openMcp } from './serve.ts'
