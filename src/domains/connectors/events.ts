/** Every event this room writes, with its purpose. */
import { domainEventLog } from '#store'

const connectorEventTypes = {
  /** A call to another system ended. */
  connector_called: 'audit',
  /** A provider offered a new or changed definition of a tool. */
  connector_definition_seen: 'audit',
  /** A person approved a definition. */
  connector_definition_approved: 'audit',
} as const

export const connectorLog = domainEventLog(connectorEventTypes)
