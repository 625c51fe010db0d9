/** Every event this room writes, with its purpose. */
import { domainEventLog } from '#store'

const connectorEventTypes = {
  connector_called: 'audit',
  connector_definition_seen: 'audit',
  connector_definition_approved: 'audit',
} as const

export const connectorLog = domainEventLog(connectorEventTypes)
