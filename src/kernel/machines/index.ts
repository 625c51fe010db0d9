/**
 * Every state machine of Concord, in reading order: commands and what they create, agents, registry, missions, colony, flow,
 * scheduler.
 */
import type { Machine } from '../machine.ts'
import { agentInvocationMachine, agentRunMachine, swarmRunMachine } from './agent.ts'
import { approvalMachine } from './approval.ts'
import { artifactMachine } from './artifact.ts'
import { colonyMissionMachine, colonyProposalMachine, colonyReviewMachine, colonyTaskMachine } from './colony.ts'
import { commandMachine, effectMachine } from './command.ts'
import { connectorInvocationMachine } from './connector-invocation.ts'
import { flowOutboxMachine, flowTaskMachine } from './flow.ts'
import { memoryCandidateMachine, memoryRecordMachine } from './memory.ts'
import { missionRunMachine, missionTaskMachine } from './mission.ts'
import {
  registryBindingMachine,
  registryEntityMachine,
  registryEvaluationMachine,
  registryVersionMachine,
} from './registry.ts'
import { schedulerJobMachine, schedulerJobRunMachine, schedulerReservationMachine } from './scheduler.ts'

export * from './agent.ts'
export * from './approval.ts'
export * from './artifact.ts'
export * from './colony.ts'
export * from './command.ts'
export * from './connector-invocation.ts'
export * from './flow.ts'
export * from './memory.ts'
export * from './mission.ts'
export * from './registry.ts'
export * from './scheduler.ts'

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
