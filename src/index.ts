/** What `import … from 'concord'` gives: the service as a whole. The parts are `concord/kernel` and `concord/store`. */
export {
  type Config,
  defineProject,
  type Project,
  type Environment,
  readConfig,
  systemDeps,
  type RunningServer,
  type StartOptions,
  startServer,
  version,
  type SystemDeps,
} from '#app'
export type { Decision, Refusal } from '#kernel/refusal'
export { type ApprovalType, defineApprovalType } from '#domains/approvals'
export { type ArtifactType, defineArtifactType } from '#domains/artifacts'
export {
  defineCommandType,
  defineConnectorOperation,
  defineEffect,
  defineFunction,
  defineMaintenance,
  definePolicy,
  defineSchedule,
  defineTask,
  type Definition,
  EffectFailure,
  EffectPending,
  loadConnector,
  registerRetry,
  type ScheduleSpec,
} from '#domains/commands'
export {
  type Connector,
  type ConnectorCall,
  type ConnectorDefinition,
  ConnectorFailure,
  type ConnectorResult,
  defineConnector,
  filesConnector,
  githubConnector,
  httpConnector,
  mcpConnector,
  notificationConnector,
  postgresConnector,
  succeeded,
} from '#domains/connectors'
