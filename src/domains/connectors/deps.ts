/** What this room needs from outside, and a connector as a process holds it. */
import type { NewId } from '#kernel/clock'
import type { Db } from '#store'
import type { Breaker } from './breaker.ts'
import type { Connector, ConnectorDefinition, ConnectorTools } from './connector.ts'
import type { Secrets } from './secrets.ts'

export type ConnectorDeps = ConnectorTools & {
  readonly db: Db
  readonly newId: NewId
  readonly secrets: Secrets
}

export type OpenedConnector = {
  readonly definition: ConnectorDefinition
  readonly connector: Connector
  readonly breaker: Breaker
}
