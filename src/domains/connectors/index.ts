/** The door of the connectors room: the contract, the gate, secrets, and the connectors that come with Concord. */
export { type BreakerState, type BreakerVerdict, closedBreaker, decideBreaker, nextBreaker } from './breaker.ts'
export { type ConnectorRequest } from './call-connector.ts'
export { checkConnector, checkOpened } from './check-connector.ts'
export {
  type CallContext,
  type Connector,
  type ConnectorCall,
  type ConnectorError,
  ConnectorFailure,
  type ConnectorResult,
  failed,
  type Happened,
  type RefreshContext,
  type LookContext,
  type SeenDefinition,
  succeeded,
  unsupported,
} from './connector.ts'
export {
  type ConnectorForm,
  connectorForm,
  connectorOfForm,
  type ConnectorType,
  shippedConnectorTypes,
} from './connector-form.ts'
export type { ConnectorTools } from './connector-tools.ts'
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
  authModes,
  type BreakerTerms,
  type ConnectorAuth,
  type ConnectorDefinition,
  type ConnectorOperationContract,
  defineConnector,
  type Followup,
  type PinnedTerms,
  type RateLimits,
  type ReadBack,
  type SideEffectClass,
  sideEffectClasses,
} from './define-connector.ts'
export { approveDefinition, type ApproveDefinition } from './definitions/approve-definition.ts'
export type { CheckDefinitions } from './definitions/check-definitions.ts'
export { type DefinitionChange, diffDefinitions, hashDefinition, sayChanges } from './definitions/hash-definition.ts'
export {
  approvedDefinition,
  definitionView,
  listDefinitions,
  toDefinitionView,
} from './definitions/list-definitions.ts'
export { type StoredDefinition } from './definitions/stored-definition.ts'
export { type ConnectorEventType, connectorLog } from './events.ts'
export { filesConnector, type FilesConnectorInput } from './files/files-connector.ts'
export { fillTemplate, type TemplateFacts, valueIn } from './fill-template.ts'
export type { ConnectorFinding } from './finding.ts'
export { markerOf } from './github/github-api.ts'
export { githubConnector } from './github/github-connector.ts'
export type { GithubConnectorInput } from './github/github-settings.ts'
export { httpConnector } from './http/http-connector.ts'
export { type HttpConnectorInput, type HttpForm, type HttpMethod, httpMethods } from './http/http-settings.ts'
export { isRange, specialNetworkOf } from './http/ip-address.ts'
export { decideAddress, decideUrl, type Reach } from './http/reach.ts'
export { type Resolve, systemResolve } from './http/send-request.ts'
export { type InvocationPage, type ListInvocations, listInvocations } from './list-invocations.ts'
export { type Connectors, openConnectors } from './open-connectors.ts'
export { mcpConnector } from './mcp/mcp-connector.ts'
export type { HttpServer, McpConnectorInput, McpToolTerms, StdioServer } from './mcp/mcp-settings.ts'
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
export type {
  EmailChannel,
  NotificationConnectorInput,
  SlackChannel,
  WebhookChannel,
} from './notify/notification-settings.ts'
export { messageIdOf } from './notify/send-email.ts'
export { postgresConnector, type PostgresConnectorInput } from './postgres/postgres-connector.ts'
export { environmentSecrets, fileSecrets } from './secret-sources.ts'
export {
  openSecrets,
  parseSecretReference,
  type SecretScheme,
  secretSchemes,
  type Secrets,
  type SecretSource,
  type SecretSources,
} from './secrets.ts'
export type { StoredInvocation } from './stored-invocation.ts'
export type { SyncConnectors, SyncedConnector } from './sync-connectors.ts'
export { knownTools, type Tool, type ToolExecutionMode, toolExecutionModes, toolsOf, toolView } from './tool.ts'
export type { ConnectorDeps } from './deps.ts'
