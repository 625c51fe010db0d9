/** The exports of `concord/client`: the typed client of a running server. */
export {
  type Client,
  type CommandOf,
  type CommandRef,
  type CommandView,
  ConcordError,
  connect,
  type ConnectOptions,
  type EventView,
  type Explanation,
  type Submitted,
} from './client.ts'
export { readServerEvents, type ServerEvent } from './server-events.ts'
