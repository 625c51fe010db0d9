/** Every event this room writes, with its purpose. */
import { domainEventLog } from '#store'

const connectorEventTypes = { connector_called: 'audit' } as const

export const connectorLog = domainEventLog(connectorEventTypes)
export type ConnectorEventType = keyof typeof connectorEventTypes
