/**
 * Every state machine of Concord, in reading order: commands and what they create, agents, registry, missions, colony, flow,
 * scheduler.
 */
import type { Machine } from '../machine.ts'
import { agentInvocationMachine } from './agent-invocation.ts'
import { agentRunMachine } from './agent-run.ts'
import { approvalMachine } from './approval.ts'
import { artifactMachine } from './artifact.ts'
import { colonyMissionMachine } from './colony-mission.ts'
import { colonyProposalMachine } from './colony-proposal.ts'
import { colonyReviewMachine } from './colony-review.ts'
import { colonyTaskMachine } from './colony-task.ts'
import { commandMachine } from './command.ts'
import { connectorInvocationMachine } from './connector-invocation.ts'
import { effectMachine } from './effect.ts'
import { flowOutboxMachine } from './flow-outbox.ts'
import { flowTaskMachine } from './flow-task.ts'
import { memoryCandidateMachine } from './memory-candidate.ts'
import { memoryRecordMachine } from './memory-record.ts'
import { missionRunMachine } from './mission-run.ts'
import { missionTaskMachine } from './mission-task.ts'
import { registryBindingMachine } from './registry-binding.ts'
import { registryEntityMachine } from './registry-entity.ts'
import { registryEvaluationMachine } from './registry-evaluation.ts'
import { registryVersionMachine } from './registry-version.ts'
import { schedulerJobRunMachine } from './scheduler-job-run.ts'
import { schedulerJobMachine } from './scheduler-job.ts'
import { schedulerReservationMachine } from './scheduler-reservation.ts'
import { swarmRunMachine } from './swarm-run.ts'

export {
  type ActorType,
  actorTypes,
  type ColonyActor,
  type ConcordActor,
  colonyActors,
  concordActors,
  type FlowActor,
  flowActors,
  type SchedulerActor,
  schedulerActors,
} from '../actor.ts'
export { type AgentInvocationState, agentInvocationMachine } from './agent-invocation.ts'
export { type AgentRunState, agentRunMachine } from './agent-run.ts'
export { type ApprovalState, approvalMachine } from './approval.ts'
export { type ArtifactState, artifactMachine } from './artifact.ts'
export { type ColonyMissionState, colonyMissionMachine } from './colony-mission.ts'
export { type ColonyProposalState, colonyProposalMachine } from './colony-proposal.ts'
export { type ColonyReviewState, colonyReviewMachine } from './colony-review.ts'
export { type ColonyTaskState, colonyTaskMachine } from './colony-task.ts'
export { type CommandState, commandMachine } from './command.ts'
export { type ConnectorInvocationState, connectorInvocationMachine } from './connector-invocation.ts'
export { type EffectState, effectMachine } from './effect.ts'
export { type FlowOutboxState, flowOutboxMachine } from './flow-outbox.ts'
export { type FlowTaskState, flowTaskMachine } from './flow-task.ts'
export { type MemoryCandidateState, memoryCandidateMachine } from './memory-candidate.ts'
export { type MemoryRecordState, memoryRecordMachine } from './memory-record.ts'
export { type MissionRunState, missionRunMachine } from './mission-run.ts'
export { type MissionTaskState, missionTaskMachine } from './mission-task.ts'
export { type RegistryBindingState, registryBindingMachine } from './registry-binding.ts'
export { type RegistryEntityState, registryEntityMachine } from './registry-entity.ts'
export { type RegistryEvaluationState, registryEvaluationMachine } from './registry-evaluation.ts'
export { type RegistryVersionState, registryVersionMachine } from './registry-version.ts'
export { type SchedulerJobState, schedulerJobMachine } from './scheduler-job.ts'
export { openJobRun, type SchedulerJobRunState, schedulerJobRunMachine } from './scheduler-job-run.ts'
export { type SchedulerReservationState, schedulerReservationMachine } from './scheduler-reservation.ts'
export { type SwarmRunState, swarmRunMachine } from './swarm-run.ts'

/** In reading order. */
export const allMachines: readonly Machine[] = [
  commandMachine,
  approvalMachine,
  effectMachine,
  artifactMachine,
  memoryCandidateMachine,
  memoryRecordMachine,
  connectorInvocationMachine,
  swarmRunMachine,
  agentRunMachine,
  agentInvocationMachine,
  registryEntityMachine,
  registryVersionMachine,
  registryBindingMachine,
  registryEvaluationMachine,
  missionRunMachine,
  missionTaskMachine,
  colonyMissionMachine,
  colonyTaskMachine,
  colonyReviewMachine,
  colonyProposalMachine,
  flowTaskMachine,
  flowOutboxMachine,
  schedulerJobMachine,
  schedulerJobRunMachine,
  schedulerReservationMachine,
]
