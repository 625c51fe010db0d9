/** The exports of the missions room: from a plan of tasks to its outcome. */
export { cancelMission, decidePlan, pauseMission, resumeMission } from './act-on-mission.ts'
export { cancelTask, decideOutput, retryTask } from './act-on-task.ts'
export {
  explainedTaskView,
  missionActionBody,
  missionDetailView,
  missionEventPageView,
  type missionEventView,
  missionPageView,
  missionState,
  missionStateType,
  missionTaskPageView,
  missionTaskView,
  missionView,
  raiseMissionBudgetBody,
  rejectOutputBody,
  toExplainedTaskView,
  toMissionDetailView,
  toMissionEventView,
  toMissionTaskView,
  toMissionView,
} from './contract.ts'
export { changePlan } from './change-plan.ts'
export { claimTask, workerIdOf } from './claim-task.ts'
export { archiveMissionEvents } from './archive-events.ts'
export { createMission, createMissionBody } from './create-mission.ts'
export { missionDefinitions } from './definitions.ts'
export { MISSION_KIND, MISSION_QUEUE, type MissionDeps } from './deps.ts'
export { openMissionDrive } from './drive-mission.ts'
export { missionEventTypes } from './events.ts'
export { explainTask, sayMissionOf } from './explain-mission.ts'
export { forkMissionBody } from './fork.ts'
export { missionGraphView, toMissionGraphView } from './mission-graph.ts'
export { missionInvariants } from './mission-invariants.ts'
export { listMissions } from './mission.ts'
export { findApprovers } from './next-steps.ts'
export { outcomesView, readOutcomes } from './outcomes.ts'
export { planLines } from './plan.ts'
export {
  editRecipe,
  editRecipeBody,
  listRecipes,
  readDrift,
  readRecipe,
  recipeDetailView,
  recipeDriftView,
  recipePageView,
  saveRecipe,
  saveRecipeBody,
  toRecipeDetailView,
  toRecipeView,
} from './recipe.ts'
export {
  boardView,
  cardNumber,
  cardPageView,
  cardStatus,
  cardView,
  createCard,
  createCardBody,
  listCards,
  readBoard,
  readCard,
  toCardView,
} from './read-board.ts'
export { preflightMission, preflightPlan } from './preflight.ts'
export { missionPreflightBody, missionPreflightView } from './preflight-contract.ts'
export {
  fileReport,
  fileReportBody,
  listReports,
  missionReportView,
  readMissionReport,
  reportPageView,
  reportType,
  reportView,
  toReportView,
} from './reports.ts'
export { missionPlan } from './plan.ts'
export { raiseMissionBudget } from './raise-limit.ts'
export { readMission, readMissionEvents, readMissionTasks, requireMission } from './read-mission.ts'
export { recordVerdict, startVerification } from './record-verdict.ts'
export { continueTask, failTask, keepTask, type LeaseHolder, startTask, submitTask } from './worker-calls.ts'
export {
  claimedTaskView,
  claimTaskBody,
  continueTaskBody,
  failTaskBody,
  heldTaskView,
  keepTaskBody,
  outputView,
  startTaskBody,
  startVerificationBody,
  submitTaskBody,
  toClaimView,
  toHeldTaskView,
  toOutputView,
  verdictBody,
} from './worker-contract.ts'
export { OFFERS_CHANNEL } from './worker-task.ts'
export { recordResumedMission, reconcileMissions, wakeStalledMissions } from './reconcile-missions.ts'
