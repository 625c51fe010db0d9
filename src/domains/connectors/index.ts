/** The exports of the connectors room: the contract, the gate, secrets, and the connectors that come with Concord. */
export { checkConnector, checkOpened } from './check-connector.ts'
export {
  type AuthMode,
  type Connector,
  type ConnectorCall,
  type ConnectorDefinition,
  ConnectorFailure,
  type ConnectorOperationContract,
  type ConnectorRequest,
  type ConnectorResult,
  defineConnector,
  failed,
  type RateLimits,
  type ReadBack,
  type RefreshContext,
  succeeded,
} from './connector.ts'
export { connectorForm, connectorOfForm, type ConnectorType } from './connector-form.ts'
export {
  connectorDetailView,
  connectorView,
  definitionView,
  invocationView,
  toConnectorDetailView,
  toConnectorView,
  toDefinitionView,
  toInvocationView,
  toolsOf,
} from './contract.ts'
export { approveDefinition, approvedDefinition, listDefinitions } from './definitions.ts'
export { filesConnector } from './files/files-connector.ts'
export { markerOf } from './github/github-api.ts'
export { githubConnector } from './github/github-connector.ts'
export { findAddressFlaws, openGuardedFetch } from './http/guarded-fetch.ts'
export { httpConnector } from './http/http-connector.ts'
export { httpReachOf } from './http/reach.ts'
export { failureOfStatus, type Network } from './http/request.ts'
export { listInvocations, type StoredInvocation } from './invocation.ts'
export { type Connectors, openConnectors } from './open-connectors.ts'
export { mcpConnector, type McpConnectorInput, type McpToolTerms } from './mcp/mcp-connector.ts'
export type { HttpServer } from './mcp/mcp-session.ts'
export {
  type Inbox,
  listNotifications,
  notificationView,
  postNotification,
  readAllNotifications,
  readNotification,
  toNotificationView,
} from './notify/app-inbox.ts'
export { notificationConnector } from './notify/notification-connector.ts'
export type { SlackChannel } from './notify/post-message.ts'
export { messageIdOf } from './notify/send-email.ts'
export { postgresConnector } from './postgres/postgres-connector.ts'
export { environmentSecrets, fileSecrets, openSecrets, type SecretSources } from './secrets.ts'
export { fillTemplate, valueIn } from './template.ts'
export { typeOfSchema } from './json-schema.ts'
export { openWatchedProcess } from './watched-process.ts'
