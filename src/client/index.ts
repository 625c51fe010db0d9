/** The exports of `@concordhq/concord/client`: the typed client of a running server. */
export {
  type ApprovalCard,
  type CommandHandle,
  type CommandOf,
  type CommandRef,
  type ConcordClient,
  ConcordError,
  connect,
  type ConnectOptions,
  type EventView,
  type Explanation,
} from './client.ts'
export { readServerEvents, type ServerEvent } from './server-events.ts'
