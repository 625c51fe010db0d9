/** The exports of the package `@concordhq/concord`: the service as a whole. Its parts are `@concordhq/concord/kernel`, `@concordhq/concord/store` and `@concordhq/concord/scheduler`. */
export { type Config, type Environment, readConfig } from '#app/config'
export { defineProject, type Project } from '#app/project'
export { type Concord, type ConcordOptions, openConcord } from '#app/open-concord'
export { type RunningServer, startServer } from '#app/start-server'
export type { StartOptions } from '#app/start-worker'
export { type SystemDeps, systemDeps } from '#app/system-deps'
export { version } from '#app/version'
export type { Decision, Refusal } from '#kernel/refusal'
export { from, type Operation, type CommandStep } from '#kernel/step'
export { ConcordError } from '#client'
export {
  type AgentDefinition,
  type AgentRuntime,
  defineAgent,
  defineSwarm,
  loadSwarm,
  modelConnector,
  type ModelDefinition,
  processRuntime,
  type SwarmDefinition,
} from '#domains/agents'
export { type ApprovalType, defineApprovalType } from '#domains/approvals'
export { type ArtifactType, defineArtifactType } from '#domains/artifacts'
export type { MemorySchema } from '#domains/memory'
export {
  allow,
  ask,
  type CommandDefinition,
  defineCommand,
  defineCommandType,
  defineConnectorOperation,
  defineEffect,
  defineFact,
  defineFunction,
  defineMaintenance,
  definePolicy,
  defineSchedule,
  defineTask,
  defineTool,
  type Definition,
  delay,
  deny,
  EffectFailure,
  EffectPending,
  loadConnector,
  memorySteps as memory,
  needInput,
  registerRetry,
  type ScheduleSpec,
  sleepFor,
  sleepUntil,
  waitFor,
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
export { defineOperator, type Operator, type OperatorCall, type OperatorResult } from '#domains/flow'
export { missionEventTypes } from '#domains/missions'
