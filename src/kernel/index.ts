/** The door of the kernel: everything another project may use, by name. */
export { accept, type Accepted, type Decision, quote, type Refusal, refuse } from './refusal.ts'
export { hintOf, refusalHints } from './refusal-hints.ts'
export { isRefusalCode, kindOf, type RefusalCode, refusalCodes, type RefusalKind } from './refusal-codes.ts'
export { KernelFault } from './errors.ts'
export { type Clock, type NewId, type Random } from './clock.ts'
export {
  agentActionTypes,
  type AgentActionType,
  type AgentStep,
  type AgentStepColumns,
  type AgentStepEvent,
  type AgentStepField,
  agentStepFields,
  readAgentStep,
  toAgentStepEvent,
} from './agent-step.ts'
export {
  afterEnd,
  canMove,
  type Clear,
  columnOfState,
  decideMove,
  defineMachine,
  findMove,
  isState,
  type LockKind,
  type Machine,
  type Move,
  moves,
  nextStates,
  type RowFacts,
  type Stamp,
  stateOfColumn,
  statesOf,
  type StateType,
  stateTypes,
  type TypeByFact,
  typeOf,
} from './machine.ts'
export {
  canReach,
  differingPairs,
  endless,
  exitsFromTerminal,
  isEnd,
  reachableFrom,
  type ReachOptions,
  sqlCheckList,
  unreachable,
} from './machine-graph.ts'
export {
  type ActorType,
  actorTypes,
  agentInvocationMachine,
  type AgentInvocationState,
  agentRunMachine,
  type AgentRunState,
  allMachines,
  approvalMachine,
  type ApprovalState,
  artifactMachine,
  type ArtifactState,
  type ColonyActor,
  colonyActors,
  colonyMissionMachine,
  type ColonyMissionState,
  colonyProposalMachine,
  type ColonyProposalState,
  colonyReviewMachine,
  type ColonyReviewState,
  colonyTaskMachine,
  type ColonyTaskState,
  commandMachine,
  type CommandState,
  type ConcordActor,
  concordActors,
  connectorInvocationMachine,
  type ConnectorInvocationState,
  effectMachine,
  type EffectState,
  type FlowActor,
  flowActors,
  flowOutboxMachine,
  type FlowOutboxState,
  flowTaskMachine,
  type FlowTaskState,
  memoryCandidateMachine,
  type MemoryCandidateState,
  memoryRecordMachine,
  type MemoryRecordState,
  missionRunMachine,
  type MissionRunState,
  missionTaskMachine,
  type MissionTaskState,
  openJobRun,
  registryBindingMachine,
  type RegistryBindingState,
  registryEntityMachine,
  type RegistryEntityState,
  registryEvaluationMachine,
  type RegistryEvaluationState,
  registryVersionMachine,
  type RegistryVersionState,
  type SchedulerActor,
  schedulerActors,
  schedulerJobMachine,
  schedulerJobRunMachine,
  type SchedulerJobRunState,
  type SchedulerJobState,
  schedulerReservationMachine,
  type SchedulerReservationState,
  swarmRunMachine,
  type SwarmRunState,
} from './machines/index.ts'
export {
  type Graph,
  type GraphIndex,
  type GraphNode,
  indexGraph,
  NODES_MAX,
  ruleOf,
  show,
  sortNodes,
  validateGraph,
} from './dag/graph.ts'
export { TopologicalSorter } from './dag/sorter.ts'
export {
  type EndState,
  endStates,
  isTriggerRule,
  judgeUpstream,
  type NodeState,
  type TriggerRule,
  triggerRules,
  type Verdict,
} from './dag/trigger-rule.ts'
export {
  decideReadiness,
  isSettled,
  listReady,
  listUpstream,
  type Readiness,
  stateOf,
  type States,
  type Upstream,
} from './dag/readiness.ts'
export { type CounterStep, countRemaining, decideCounterStep, remainingOf } from './dag/remaining.ts'
export { type Cascade, type Decrement, planCascade, type Skip } from './dag/cascade.ts'
export { decideOutcome, isCompletedOutcome, listEssentialEnds, type Outcome } from './dag/outcome.ts'
export { type Blocker, whyBlocked, type WhyBlocked } from './dag/why-blocked.ts'
export { isStatusReachable, type ReachFacts } from './dag/reach.ts'
export {
  classifyError,
  type ErrorClass,
  errorClasses,
  type FailureClass,
  failureClasses,
  type FailureType,
  failureTypeOf,
  failureTypes,
  finalErrorClasses,
  isErrorClass,
  isRetryable,
  retryableErrorClasses,
} from './error-classes.ts'
export {
  attemptsAllowed,
  decideRetry,
  describeFailure,
  type FailedAttempt,
  retriesRemaining,
  type RetryContract,
  type RetryDecision,
  type RetryLimit,
  type RetrySettings,
  type StopReason,
  tightenLimit,
} from './retry.ts'
export { ASKED_WAIT_MAX_MS, type Backoff, boundedWait, delayAfter } from './retry-backoff.ts'
export {
  compensationPolicy,
  flowRetry,
  missionRetry,
  missionRetryOf,
  outboxRetry,
  schedulerRetry,
} from './retry-settings.ts'
export {
  checkOperations,
  type CompiledRetry,
  compilePolicy,
  decideStepKey,
  defineRetryPolicy,
  parseRetryMetadata,
  registerRetryPolicies,
  type RetryPolicy,
  type RetryRegistry,
} from './retry-policy.ts'
export { attemptOfHops, countHops, type FindRetryOf, isPermanentFailure, walkRetryChain } from './retry-chain.ts'
export { classifyPostgres } from './retry-postgres.ts'
export {
  type Facts,
  isPolicyCategory,
  isPolicyDecision,
  type PolicyAnswer,
  policyCategories,
  type PolicyCategory,
  type PolicyDecision,
  policyDecisions,
  type PolicyInput,
  type PolicyRule,
} from './policy/rule.ts'
export { compileRules, type Policy, rulesFor, selectRules } from './policy/policy.ts'
export { evaluatePolicy, type PolicyResult, type TraceLine } from './policy/evaluate.ts'
export { compileDeclaredRule, type DeclaredRule } from './policy/declared-rule.ts'
export { decideExternalSharing, externalSharing } from './policy/external-sharing.ts'
export { higherRisk, type RiskLevel, riskLevels } from './policy/risk.ts'
export {
  coreEffect,
  type CoreEffect,
  coreEvent,
  type CoreEvent,
  coreResult,
  type CoreResult,
  frozenCopy,
} from './saga/core.ts'
export { runtimeCapabilities, type RuntimeCapability } from './saga/capabilities.ts'
export {
  type Catalog,
  type CatalogRuntime,
  type CompensationManifest,
  type Entry,
  listEntries,
  type OperationManifest,
} from './saga/manifests.ts'
export { type CatalogLimits, catalogRules, type Finding, validateCatalog } from './saga/catalog.ts'
export {
  type AfterUndoFailure,
  type CompensationPlan,
  decideAfterUndoFailure,
  type EffectRecord,
  type EffectStatus,
  effectStatuses,
  planCompensation,
  type UndoFailure,
  type UndoStep,
} from './saga/compensation.ts'
export { compensationDrift, type CompensationDriftEvent, decideDrift, type Drift, hasDrift } from './saga/drift.ts'
export {
  clockMovedBackMs,
  decideClaim,
  decideRelease,
  decideRenew,
  decideWrite,
  isExpired,
  isTrusted,
  type Lease,
  type LeaseClaim,
  type LeaseTrust,
  renewEveryMs,
  trustLease,
} from './lease.ts'
export {
  decideOverlap,
  DEFAULT_CATCH_UPS_MAX,
  DEFAULT_GRACE_MS,
  DEFAULT_MISFIRE_POLICY,
  type DueSchedule,
  type Firing,
  type FiringPlan,
  misfirePolicies,
  type MisfirePolicy,
  type OverlapDecision,
  overlapPolicies,
  type OverlapPolicy,
  pickJitterMs,
  planFirings,
} from './schedule.ts'
export { type CronFields, isImpossibleDate, parseCron } from './cron-fields.ts'
export { CRON_YEARS_AHEAD, isCronDay, nextCronTime } from './cron-next.ts'
export { parseTimeZone } from './time-zone.ts'
export {
  addMoney,
  compareMoney,
  formatMoney,
  maxMoney,
  type Money,
  moneyFromMicros,
  moneyFromNumber,
  parseMoney,
  subtractMoney,
  sumMoney,
  zeroMoney,
} from './money.ts'
export {
  describeDuration,
  durationFromMs,
  type DurationMs,
  formatDuration,
  MAX_DURATION_MS,
  MAX_TIMER_MS,
  nextTimerMs,
  parseDuration,
  parseIdleTimeout,
} from './duration.ts'
export {
  type CalendarDay,
  checkInstant,
  formatInstant,
  type InstantRange,
  parseCalendarDay,
  parseInstant,
} from './instant.ts'
export { hexOfUuid, isUuid, type RandomBytes, uuidOfHex, uuidV4, uuidV7, uuidV7Generator } from './uuid.ts'
export {
  decodeId,
  encodeId,
  type IdKind,
  idPrefixes,
  isTextId,
  textId,
  type TextIdKind,
  textIdPrefixes,
} from './ids.ts'
export {
  checkSize,
  defaultJsonLimits,
  formatPath,
  isForbiddenKey,
  isJsonObject,
  isPlainObject,
  type JsonLimits,
  type JsonObject,
  type JsonStep,
  type JsonValue,
} from './json-value.ts'
export { parseGuardedJson, parseGuardedObject } from './json-guard.ts'
export { guardValue } from './json-value-guard.ts'
export { canonicalJson } from './canonical-json.ts'
export { decideIdempotencyKey, KEY_CHARACTERS_MAX, type KeyContract, parseIdempotencyKey } from './idempotency-key.ts'
export {
  actionKey,
  agentKey,
  cronKey,
  type KeyPart,
  type KeyTemplate,
  parseKeyTemplate,
  renderKey,
  scheduleKey,
  webhookKey,
} from './key-template.ts'
export { PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX, parsePageLimit } from './page-limit.ts'
export { countSlips, didYouMean, nearest, nearestNames } from './nearest.ts'
