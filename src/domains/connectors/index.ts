/** The door of the connectors room: the contract, the gate, secrets, and the connectors that come with Concord. */
export { type ConnectorRequest } from './call-connector.ts'
export { checkConnector, checkOpened, fillTemplate, valueIn } from './check-connector.ts'
export {
  type Connector,
  type ConnectorCall,
  ConnectorFailure,
  type ConnectorResult,
  failed,
  type RefreshContext,
  succeeded,
} from './connector.ts'
export { connectorForm, connectorOfForm, type ConnectorType } from './connector-form.ts'
export {
  connectorDetailView,
  connectorView,
  invocationView,
  toConnectorDetailView,
  toConnectorView,
  toInvocationView,
} from './contract.ts'
export {
  type AuthMode,
  type ConnectorDefinition,
  type ConnectorOperationContract,
  defineConnector,
  type RateLimits,
  type ReadBack,
} from './define-connector.ts'
export { approveDefinition } from './definitions/approve-definition.ts'
export {
  approvedDefinition,
  definitionView,
  listDefinitions,
  toDefinitionView,
} from './definitions/definition.ts'
export { filesConnector } from './files/files-connector.ts'
export { markerOf } from './github/github-api.ts'
export { githubConnector } from './github/github-connector.ts'
export { httpConnector } from './http/http-connector.ts'
export { listInvocations, type StoredInvocation } from './invocation.ts'
export { type Connectors, openConnectors } from './open-connectors.ts'
export { mcpConnector } from './mcp/mcp-connector.ts'
export type { HttpServer, McpConnectorInput, McpToolTerms } from './mcp/mcp-settings.ts'
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
export type { SlackChannel } from './notify/notification-settings.ts'
export { messageIdOf } from './notify/send-email.ts'
export { postgresConnector } from './postgres/postgres-connector.ts'
export { environmentSecrets, fileSecrets, openSecrets, type SecretSources } from './secrets.ts'
export { toolsOf } from './tool.ts'
