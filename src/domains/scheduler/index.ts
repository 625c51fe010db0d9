/** The public API of the scheduler: jobs on one machine, on SQLite, in a deterministic order. */
export {
  type AskedDirect,
  askForDirect,
  type FollowDirect,
  followDirect,
  type RunDirect,
  runDirect,
  startAskedDirect,
  startDirectJob,
} from './direct-job.ts'
export { cancelJob, changeJob, normalizeQueue, retryJob } from './change-job.ts'
export {
  checkInvariants,
  describeSelfCheck,
  type Execution,
  type SelfCheck,
  selfCheckView,
  toSelfCheckView,
  type Violation,
} from './check-invariants.ts'
export { type Claimed, claimJobs, type Waiting } from './claim-next.ts'
export {
  changeJobBody,
  changeScheduleBody,
  changeTemplateBody,
  directJobBody,
  jobTypeBody,
  moveJobBody,
  placeJobBody,
  reserveBody,
  type RetryPolicyBody,
  retryPolicyBody,
  scheduleBody,
  submitGroupBody,
  submitJobBody,
  templateBody,
} from './contract.ts'
export {
  changeSchedule,
  createSchedule,
  deleteSchedule,
  firingView,
  type Plans,
  readPlans,
  readSchedule,
  type ScheduleReport,
  scheduleView,
  toFiringView,
  toScheduleView,
} from './schedule.ts'
export { archiveTemplate, changeTemplate, createTemplate, templateView, toTemplateView } from './job-template.ts'
export {
  claimNotifications,
  type Deliver,
  jobNotificationView,
  readNotifications,
  recordDelivery,
  recordDeliveryFailure,
  signNotification,
  toJobNotificationView,
  type Webhook,
  webhookDeliver,
} from './notifications.ts'
export { CRASH_ERROR, type EndOrphans, openOrphanEnder, recover, type RecoveryAction } from './recover.ts'
export { fireDueSchedules, fireScheduleAt } from './fire-schedules.ts'
export {
  type FinishedRun,
  finishRun,
  finishRunSurely,
  type OutcomeAlert,
  type RunEnd,
  type Surely,
} from './finish-run.ts'
export {
  type GroupCounts,
  type GroupReport,
  type GroupStatus,
  groupStatuses,
  groupView,
  listGroups,
  readGroup,
  submittedGroupView,
  toGroupView,
  toSubmittedGroupView,
} from './job-group.ts'
export { defaultJobTypes, type JobTypeBody, jobTypeView, registerJobType, toJobTypeView } from './job-types.ts'
export {
  type JobFilter,
  jobFilters,
  type JobReport,
  jobReportView,
  type JobRunView,
  jobRunView,
  type JobView,
  jobView,
  listJobs,
  listQueue,
  type QueuePage,
  readJob,
  readRetryChain,
  toJobReportView,
  toJobRunView,
  toJobView,
} from './job-views.ts'
export { migrate as migrateSchedulerFile } from './migrate.ts'
export { openQueueCache, type QueueCache } from './queue.ts'
export { moveJob, placeJob, swapJobs } from './move-job.ts'
export { nextOccurrences } from './next-occurrence.ts'
export {
  nextWake,
  type RunEvent,
  type RunScheduler,
  runScheduler,
  type RunSummary,
  type NextWake,
} from './run-scheduler.ts'
export { isOwned, type OpenScheduler, openScheduler } from './open-scheduler.ts'
export {
  type PointPlan,
  type SchedulerFault,
  SchedulerFaultInjected,
  type SchedulerPoint,
  schedulerPoints,
} from './failpoints.ts'
export { openProcessTable, type ProcessTable, RUN_VARIABLE } from './process-table.ts'
export { type Pruned, pruneRuns } from './prune-runs.ts'
export { readLog, type ReadLog, runFolderOf } from './run-log.ts'
export { addArtifacts, recordLogPath, recordProcess } from './run-repository.ts'
export {
  readReservations,
  releaseReservation,
  renewReservation,
  reservationView,
  reserve,
  tickReservations,
  toReservationView,
  waitForReservation,
} from './reservations.ts'
export { type RunStopReason, runStopReasons, type Wait } from './run-child.ts'
export {
  type HandlerContext,
  type HandlerResult,
  type JobDeps,
  type JobHandler,
  type JobHandlers,
  type RunningJob,
  SHUTDOWN_ERROR,
} from './run-job.ts'
export {
  type ClaimedRun,
  COMMAND_TYPE,
  commandParams,
  commandRunner,
  type OrphanEnd,
  plainVariables,
  type ProcessIdentity,
  type RunnerBody,
  runnerBody,
  type RunnerPort,
} from './runner-settings.ts'
export type { Scheduler, SchedulerRole, SchedulerSettings, SchedulerDeps } from './scheduler.ts'
export { requestStop } from './stop-request.ts'
export { namesOwnCommand, submitGroup, type SubmitJob, submitJob, type SubmittedGroup } from './submit-job.ts'
export type {
  NotificationKind,
  RetryVerdict,
  StoredFiring,
  StoredGroup,
  StoredJob,
  StoredJobType,
  StoredJobNotification,
  StoredReservation,
  StoredRun,
  StoredSchedule,
  StoredTemplate,
} from './stored-rows.ts'
