/** The exports of the agents room: agents, their runs, and the port of agent runtimes. */
export { type AgentDefinition, defineAgent } from './agent-definition.ts'
export { actInRun, getReadableRun } from './act-in-run.ts'
export { listMessages, sweepMessages } from './agent-message.ts'
export { forgetCalls, forgetMessages } from './forget-runs.ts'
export { loadAgentWorkflow } from './agent-workflow.ts'
export { getAgentRun, listAgentRuns, reconcileRuns } from './agent-run.ts'
export type { AgentAnswer, AgentObservation, AgentRuntime, AgentTurn, ModelRequest } from './agent-runtime.ts'
export { type AgentDeps, RUN_KIND, RUN_QUEUE } from './deps.ts'
export { recordResumedRun } from './record-resumed.ts'
export { openRunDrive } from './drive-run.ts'
export { agentDefinitions } from './run-effect.ts'
export { scriptedRuntime } from './scripted-runtime.ts'
export { aiSdkRuntime } from './models/ai-sdk-runtime.ts'
export { type ModelDefinition, modelConnector, type ModelInput } from './models/model-connector.ts'
export { openModels } from './models/ask-model.ts'
export {
  actInRunBody,
  agentMessageView,
  agentRunDetailView,
  agentRunStatus,
  agentRunView,
  agentStepView,
  runActionView,
  toAgentMessageView,
  toAgentRunDetailView,
  toAgentRunView,
  toAgentStepView,
} from './contract.ts'
export { envelopeFacts, requestEnvelope } from './envelope.ts'
export { preflightTask } from './preflight.ts'
export { preflightBody, preflightView } from './preflight-contract.ts'
export { listAgentSteps } from './events.ts'
export { runInvariants } from './run-invariants.ts'
export {
  authorityView,
  swarmDetailView,
  swarmPageView,
  swarmView,
  toAuthorityView,
  toSwarmDetailView,
  toSwarmView,
} from './swarms/contract.ts'
export { openSwarmDrive } from './swarms/drive-swarm.ts'
export { readSwarmTree, swarmFacts } from './swarms/read-swarm.ts'
export { spawnDefinitions } from './swarms/spawn-subagent.ts'
export { defineSwarm, loadSwarm, type SwarmDefinition } from './swarms/swarm-definition.ts'
export { swarmDefinitions } from './swarms/swarm-effect.ts'
export { proveAuthority } from './swarms/verify-authority.ts'
export { listSwarmRuns, reconcileSwarms, SWARM_KIND, SWARM_QUEUE } from './swarms/swarm-run.ts'
export { processRuntime } from './process/process-runtime.ts'
export { agentsOfSwarms, checkAgents, checkToolsOfAgents } from './check-agents.ts'
