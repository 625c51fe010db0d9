/** The exports of the commands room: the catalog, the path of a command from request to outcome, and its explanation. */
export { actionView, type ActionView, proposeActionBody, toActionView } from './actions/action-contract.ts'

export {
  agentGateway,
  proposeAction,
  type ProposeAction,
  type ProposedAction,
  readAction,
} from './actions/propose-action.ts'
export {
  agentHash,
  countEnvelopeUse,
  ENVELOPE_START,
  envelopeKey,
  type EnvelopeTerms,
  RUN_UNDER_ENVELOPE,
} from './actions/envelope.ts'
export {
  examplesOf,
  listIrreversible,
  mergeApprovals,
  previewTool,
  type ToolPreview,
} from './actions/preview-tool.ts'
export { DELEGATION, RAISE_BUDGET, startsRun } from './actions/run-authority.ts'
export { proposeInRun, type RunAction } from './actions/propose-in-run.ts'
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
export { defineTool } from './catalog/define-tool.ts'
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
export { anyHost, type Catalog, type CompiledTask, openCatalog } from './catalog/open-catalog.ts'
export { checkShapes } from './catalog/shape-checks.ts'
export { memorySteps, sleepFor, sleepUntil, waitFor } from './catalog/steps.ts'
export { mapTaskToPrimitives } from './catalog/primitives.ts'
export { defineTask } from './catalog/definitions.ts'

export {
  COMMAND_KIND,
  readCommand,
  refuseMissing,
  type StoredCommand,
  RUN_KIND,
  SWARM_KIND,
} from './command-table.ts'
export {
  checkSecrets,
  redactPayload,
  restorePayload,
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
  submitCommandBody,
  submittedView,
  taskTypeView,
  toCommandView,
  toEffectView,
  toEventView,
  toListedView,
  toSubmittedView,
  toTaskTypeView,
  undoBody,
} from './contract.ts'
export { openDrive, reconcileCommands } from './drive.ts'
export { findPresentRights } from './requester.ts'
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
export type { Invariant } from './invariants/invariants.ts'

export {
  defineMaintenance,
  findScheduledTask,
  fireSchedule,
  scheduledTypeOf,
  shippedSchedules,
  shippedSchedulesFor,
} from './scheduled-commands.ts'

export type { NextMove } from './progress.ts'
export {
  listUndos,
  previewUndo,
  readUndoLinks,
  undoByDecision,
  undoCommand,
  undoPreviewView,
  type UndoState,
} from './undo-command.ts'
export { undoDefinitions } from './undo-task.ts'
export { findStop, listStops, stopView, toStopView } from './stops/stop.ts'
export { liftBody, requestLift, stopAgents, stopBody, stopDefinitions } from './stops/stop-task.ts'
export { type Commands, openCommands } from './open-commands.ts'
export { findHolders, keysOf } from './command-keys.ts'
export { type CommandPreview, previewCommand, previewCommandBody, previewView } from './preview.ts'

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
export { listRunStandings, showRunWait } from './run-waits.ts'
export { compensateCommand, retryCommand, supplyInput } from './change-command.ts'
export { sendSignal, sweepSignals } from './signals.ts'
export type { CommitEnded } from './inline.ts'
export type { JoinedInsert } from './insert-command.ts'
export { labelReader } from './labels.ts'
export { listStanding } from './list-standing.ts'
export { signalBody, signalView, toSignalView } from './signal-contract.ts'
export { waitDefinitions } from './wait-effects.ts'
export { rejectRequest, submitCommand, type SubmitCommand } from './submit.ts'
export { actingFor, type CommandDeps, mayReadCommand } from './deps.ts'
export { decideScope, findTool, findTools, listTools, toolSchema, toolSlug } from './actions/find-tool.ts'
export { findTask, PERSON_FIELDS, RUN_ONLY, taskOf, validatePayload, wakeOptionsOf } from './tasks.ts'
export { abortCommand, type Operating, resumeCommand } from './abort-command.ts'
export { checkConnectorAccess, type ConnectorAccess, type FactSources } from './facts.ts'
export {
  fieldsAt,
  loadConnector,
  loadDefinitions,
  mergeDefinitions,
  type PlacedDefinition,
  readYamlForm,
} from './yaml/load-definitions.ts'
export { readYaml } from './yaml/read-yaml.ts'
