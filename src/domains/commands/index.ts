/** The door of the commands room: the catalog, the governed path from request to outcome, and its explanation. */
export { actionView, type ActionView, proposeActionBody, toActionView } from './actions/action-contract.ts'
export { type AgentGateway, agentGateway } from './actions/agent-gateway.ts'
export { findTool, toolSlug } from './actions/find-tool.ts'
export { type ActingFor, proposeAction, type ProposeAction, type ProposedAction } from './actions/propose-action.ts'
export { type AddDependency, addDependency, type DependsOn } from './add-dependency.ts'
export { openApprovalOwner } from './answer-approval.ts'
export { approvalTypesOf } from './approval-types.ts'
export { type CancelCommand, cancelCommand, type Cancelled } from './cancel-command.ts'
export {
  ALERT_FAILURES_MAX,
  ALERT_KIND,
  ALERT_QUEUE,
  type Alert,
  type AlertChannel,
  type AlertDeps,
  openAlertSweep,
} from './alerts.ts'
export { openAlertDrive } from './drive-alert.ts'
export { connectorDefinitions } from './catalog/connector-effects.ts'
export {
  type CommandType,
  type ConnectorOperation,
  defineCommandType,
  defineConnectorOperation,
  defineFunction,
  type Definition,
  definePolicy,
  defineSchedule,
  type EffectDraft,
  type ExecutionMode,
  executionModes,
  type FunctionDefinition,
  type PolicyDefinition,
  registerRetry,
  type ScheduleDefinition,
  type ScheduleSpec,
} from './catalog/definitions.ts'
export {
  defineEffect,
  type EffectArtifacts,
  type EffectCall,
  type EffectClass,
  effectClasses,
  type EffectDefinition,
  EffectFailure,
  EffectPending,
  type Found,
  type UndoCall,
} from './catalog/effect-definition.ts'
export type { CatalogFinding } from './catalog/finding.ts'
export { agenticQuestions, findAgenticGaps, findSwarmGaps, swarmQuestions } from './catalog/agent-questions.ts'
export { findMappingGaps, mappingQuestions } from './catalog/mapping-lint.ts'
export { anyHost, type Catalog, type CatalogHost, type CompiledTask, openCatalog } from './catalog/open-catalog.ts'
export { checkShapes } from './catalog/shape-checks.ts'
export {
  executionPrimitives,
  mapTaskToPrimitives,
  type Primitive,
  primitiveFamilies,
  primitives,
} from './catalog/primitives.ts'
export { defineTask, type TaskSpec, taskSpec } from './catalog/task-spec.ts'
export { chooseQueue, type QueueName, queueNames } from './choose-queue.ts'
export {
  COMMAND_KIND,
  type CommandWithEffects,
  findCommand,
  readCommand,
  type StoredCommand,
  type StoredEffect,
} from './command-table.ts'
export {
  checkSecrets,
  type DataClass,
  dataClasses,
  dataSafetyOutcomes,
  decideDataSafety,
  highestClass,
  isSecretReference,
  redactPayload,
} from '#kernel/data-class'
export {
  cancelBody,
  cancelledView,
  commandStatus,
  commandView,
  dependencyBody,
  effectView,
  eventView,
  inputBody,
  previewCommandBody,
  previewView,
  retryBody,
  submitCommandBody,
  submittedView,
  toCommandView,
  toEffectView,
  toEventView,
  toPreviewView,
} from './contract.ts'
export { archivedView, explanationView, toArchivedView, toExplanationView } from './explanation-view.ts'
export { taskTypeView, toTaskTypeView } from './task-type-view.ts'
export { openDrive, reconcileCommands } from './drive.ts'
export { type CommandEventType, commandEventPurposes, commandLog } from './events.ts'
export { actorsOf, type ExplainedStep, type Explanation, explainCommand, type StoryFacts } from './explain-command.ts'
export { findScheduledTask, type Firing, fireSchedule, scheduledTypeOf } from './fire-schedule.ts'
export { builtInFacts, type FactSource, type FactSources } from './gather-facts.ts'
export {
  type ArchivedFile,
  type ArchivedHistory,
  archiveHistory,
  type ArchiveHistory,
} from './history/archive-history.ts'
export { countArchived, countArchiveFiles, listArchivesOf, type StoredArchive } from './history/archive-repository.ts'
export { type CommandHistory, readHistory, type ToldHistoryEvent } from './history/read-history.ts'
export { type ArchiveFinding, verifyHistory } from './history/verify-history.ts'
export type { HistoryDeps } from './history/deps.ts'
export { decideCandidate, type DecideCandidate } from './memory/decide-candidate.ts'
export { followCandidates } from './memory/follow-candidates.ts'
export { memoryDefinitions } from './memory/memory-definitions.ts'
export { memoryFacts } from './memory/memory-policies.ts'
export { forgetMemoryTask, REVIEW_STALE_MEMORY, reviewStaleMemoryTask, writeMemoryTask } from './memory/memory-types.ts'
export { type MemoryProposal, proposeMemory, type ProposeMemory, type ProposingRun } from './memory/propose-memory.ts'
export { type ForgetRequest, requestForget, type RequestForget } from './memory/request-forget.ts'
export { type BrokenInvariant, findBrokenInvariants, invariantCount } from './invariants/find-broken-invariants.ts'
export { commandInvariants, type Invariant } from './invariants/invariants.ts'
export {
  defineMaintenance,
  type Maintenance,
  type MaintenanceType,
  shippedSchedules,
  shippedSchedulesFor,
} from './maintenance.ts'
export { type NextMove, nextMoves } from './next-moves.ts'
export { COMPENSATE_COMMAND, compensateDefinitions, decideCompensation } from './compensate-task.ts'
export { type CommandOptions, type Commands, openCommands } from './open-commands.ts'
export { previewCommand } from './preview.ts'
export { type ExecutionPlan, type PlanStep, validatePlan } from './plan.ts'
export {
  artifactFacts,
  decideArtifactSharing,
  PUBLISH_ARTIFACT,
  publishArtifactDefinitions,
} from './publish-artifact.ts'
export { shippedPolicies } from './policies/shipped.ts'
export {
  type AuditFilter,
  type CommandFilter,
  countCommands,
  listAudit,
  listCommandEvents,
  listCommands,
  listParked,
  type ParkedCommand,
  type WorkspaceStats,
} from './read-commands.ts'
export {
  checkDelivery,
  type Received,
  openWebhooks,
  signDelivery,
  type WebhookDelivery,
  type WebhookSource,
} from './receive-webhook.ts'
export { compensateCommand, retryCommand, supplyInput, type SupplyInput } from './change-command.ts'
export { submitCommand, type SubmitCommand, type SubmittedCommand } from './submit.ts'
export { taskOf } from './tasks.ts'
export { actingFor, type CommandDeps } from './deps.ts'
export { type PayloadVerdict, validatePayload } from './validate-payload.ts'
export { abortCommand, type Operating, type OperatorAct, resumeCommand } from './abort-command.ts'
export { checkConnectorAccess, type ConnectorAccess, type ConnectorGrant } from './connector-access.ts'
export {
  type Definitions,
  loadConnector,
  loadDefinitions,
  mergeDefinitions,
  type PlacedDefinition,
} from './yaml/load-definitions.ts'
