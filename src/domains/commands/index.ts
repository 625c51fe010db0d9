/** The exports of the commands room: the catalog, the path of a command from request to outcome, and its explanation. */
export { actionView, type ActionView, proposeActionBody, toActionView } from './actions/action-contract.ts'

export { agentGateway, proposeAction, type ProposeAction, type ProposedAction } from './actions/propose-action.ts'
export { addDependency } from './add-dependency.ts'
export { openApprovalOwner } from './answer-approval.ts'
export { approvalTypesOf } from './approval-types.ts'
export { cancelCommand } from './cancel-command.ts'
export {
  ALERT_FAILURES_MAX,
  ALERT_KIND,
  ALERT_QUEUE,
  type AlertChannel,
  openAlertDrive,
  openAlertSweep,
} from './alerts.ts'
export { allow, ask, delay, deny, needInput } from './catalog/answers.ts'
export { type CatalogEntry, type CommandDefinition, defineCommand, expandCatalog } from './catalog/define-command.ts'
export { connectorDefinitions } from './catalog/connector-effects.ts'
export {
  defineCommandType,
  defineConnectorOperation,
  defineFact,
  defineFunction,
  type Definition,
  definePolicy,
  defineSchedule,
  ingressTypes,
  registerRetry,
  type ScheduleSpec,
} from './catalog/definitions.ts'
export {
  defineEffect,
  type EffectCall,
  EffectFailure,
  EffectPending,
  type UndoCall,
} from './catalog/effect-definition.ts'

export { hideUndeclared } from './catalog/declared-fields.ts'
export { anyHost, type Catalog, openCatalog } from './catalog/open-catalog.ts'
export { checkShapes } from './catalog/shape-checks.ts'
export { memorySteps, sleepFor, sleepUntil, waitFor } from './catalog/steps.ts'
export { mapTaskToPrimitives } from './catalog/primitives.ts'
export { defineTask } from './catalog/definitions.ts'

export {
  COMMAND_KIND,
  readCommand,
  refuseMissing,
  type StoredCommand,
} from './command-table.ts'
export {
  checkSecrets,
  redactPayload,
} from '#kernel/data-class'
export {
  cancelBody,
  cancelledView,
  commandStatus,
  commandView,
  dependencyBody,
  effectView,
  listedCommandView,
  eventView,
  inputBody,
  retryBody,
  signalBody,
  signalView,
  submitCommandBody,
  submittedView,
  taskTypeView,
  toCommandView,
  toEffectView,
  toEventView,
  toListedView,
  toSignalView,
  toSubmittedView,
  toTaskTypeView,
  undoBody,
} from './contract.ts'
export { openDrive, reconcileCommands } from './drive.ts'
export { repairCommandTimes } from './repair-times.ts'

export { actorsOf, explainCommand } from './explain-command.ts'
export { archivedView, explanationView, toArchivedView, toExplanationView } from './explanation-view.ts'

export { type ArchivedHistory, archiveHistory, type ArchiveHistory } from './history/archive-history.ts'
export {
  type ArchiveFinding,
  countArchived,
  countArchiveFiles,
  type HistoryDeps,
  listArchivesOf,
  readHistory,
  verifyHistory,
} from './history/history-archive.ts'
export {
  decideCandidate,
  followCandidates,
  type MemoryProposal,
  proposeMemory,
  type ProposeMemory,
  requestForget,
} from './memory/memory-requests.ts'
export { memoryDefinitions } from './memory/memory-definitions.ts'
export { memoryFacts } from './memory/memory-policies.ts'
export { findBrokenInvariants, invariantCount } from './invariants/find-broken-invariants.ts'

export {
  defineMaintenance,
  findScheduledTask,
  fireSchedule,
  scheduledTypeOf,
  shippedSchedules,
  shippedSchedulesFor,
} from './scheduled-commands.ts'

export type { NextMove } from './progress.ts'
export { listUndos, previewUndo, readUndoLinks, undoCommand, undoPreviewView } from './undo-command.ts'
export { undoDefinitions } from './undo-task.ts'
export { type Commands, openCommands } from './open-commands.ts'
export { previewCommand, previewCommandBody, previewView } from './preview.ts'

export {
  artifactFacts,
  PUBLISH_ARTIFACT,
  publishArtifactDefinitions,
} from './publish-artifact.ts'
export { countOpen } from './count-commands.ts'
export type { Count } from './observe.ts'
export { shippedPolicies } from './catalog/shipped-policies.ts'
export {
  listAudit,
  listCommandEvents,
  includable,
  scanCommands,
  effectPosition,
  listEffectsOf,
  listEffects,
  listParked,
} from './read-commands.ts'
export {
  checkDelivery,
  type HomedSource,
  openWebhooks,
  webhookForms,
  signDelivery,
  type WebhookSource,
} from './receive-webhook.ts'
export { compensateCommand, retryCommand, supplyInput } from './change-command.ts'
export { sendSignal, sweepSignals } from './signals.ts'
export { waitDefinitions } from './wait-effects.ts'
export { submitCommand, type SubmitCommand } from './submit.ts'
export { actingFor, type CommandDeps, mayReadCommand } from './deps.ts'
export { decideScope, findTools } from './actions/find-tool.ts'
export { taskOf, validatePayload } from './tasks.ts'
export { abortCommand, type Operating, resumeCommand } from './abort-command.ts'
export { checkConnectorAccess, type ConnectorAccess } from './facts.ts'
export {
  loadConnector,
  loadDefinitions,
  mergeDefinitions,
  type PlacedDefinition,
} from './yaml/load-definitions.ts'
