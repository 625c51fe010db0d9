/** The exports of the flow room: datasets that are kept up to date by jobs. */
export { dagArtifactType, deployDefinitions } from './deploy-command.ts'
export type { DataStore } from './data-store.ts'
export { FLOW_QUEUE, type FlowDeps, FLOW_OFFERS_CHANNEL, OUTBOX_CHANNEL, SOURCE_KIND, TASK_KIND } from './deps.ts'
export {
  cancelFlowTask,
  completeFlowTask,
  failFlowTask,
  keepFlowTask,
  reapTasks,
  requeueTasks,
  retryFlowTask,
  type TaskHolder,
} from './end-task.ts'
export { defineOperator, type Operator, type OperatorCall, type OperatorResult } from './operator.ts'
export { openOperators } from './operators.ts'
export { openPostgresData } from './postgres-data.ts'
export {
  claimedFlowTaskView,
  claimFlowTaskBody,
  completeFlowTaskBody,
  failFlowTaskBody,
  fetchFlowTaskBody,
  flowEventBody,
  flowEventView,
  flowTaskStatus,
  flowTaskView,
  heldFlowTaskView,
  keepFlowTaskBody,
  toClaimedFlowTask,
  toFlowTaskView,
  toHeldFlowTask,
} from './contract.ts'
export { flowInvariants } from './flow-invariants.ts'
export { fetchFlowTask, flowPayloadOf } from './payload.ts'
export { drainFlow, rehydrateTasks } from './route.ts'
export { openTaskDrive } from './run-task.ts'
export { acceptEvent, arrangeSources, openSourceDrive, restartSources } from './sources.ts'
export type { OutputReport } from './decide-flow.ts'
export { claimFlowTask } from './task.ts'
export { explainFlowTask, listDags, listDagVersions, listFlowJobs, listFlowTasks } from './read-flow.ts'
export {
  dagPageView,
  dagVersionPageView,
  flowJobPageView,
  flowTaskWhyView,
  readFlowTaskPageView,
  readFlowTaskView,
  toDagVersionView,
  toDagView,
  toFlowJobView,
  toFlowTaskWhyView,
  toReadFlowTaskView,
} from './views.ts'
