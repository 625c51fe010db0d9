/** The public API of the scheduler: jobs on one machine, on SQLite, in a deterministic order. */
export {
  cancelJob,
  changeJob,
  digestChange,
  keyOfRetry,
  moveJob,
  normalizeQueue,
  placeJob,
  retryJob,
  swapJobs,
} from './change-job.ts'
export {
  checkInvariants,
  describeSelfCheck,
  type Execution,
  type SelfCheck,
  selfCheckView,
} from './check-invariants.ts'
export { type Claimed, claimJobs } from './claim-next.ts'
export {
  changeJobBody,
  changeScheduleBody,
  changeTemplateBody,
  directJobBody,
  placeJobBody,
  reserveBody,
  scheduleBody,
  submitGroupBody,
  submitJobBody,
  templateBody,
} from './contract.ts'
export {
  type AskedDirect,
  askForDirect,
  followDirect,
  type FollowDirect,
  keyOfDirect,
  runDirect,
  type RunDirect,
  startAskedDirect,
  startDirectJob,
} from './direct-job.ts'
export { type PointPlan, type SchedulerFault, type SchedulerPoint, schedulerPoints } from './failpoints.ts'
export {
  type FinishedRun,
  finishRun,
  finishRunSurely,
  type OutcomeAlert,
  type RunEnd,
  type Surely,
} from './finish-run.ts'
export { fireDueSchedules, fireScheduleAt } from './fire-schedules.ts'
export {
  type GroupReport,
  groupView,
  listGroups,
  readGroup,
  readGroupOf,
  type SubmittedGroup,
  submittedGroupView,
  toGroupView,
  toSubmittedGroupView,
} from './job-group.ts'
export {
  archiveTemplate,
  changeTemplate,
  createTemplate,
  digestTemplate,
  listTemplates,
  readTemplate,
  templateView,
  toTemplateView,
} from './job-template.ts'
export {
  defaultJobTypes,
  type JobTypeBody,
  jobTypeView,
  listJobTypes,
  registerJobType,
  toJobTypeView,
} from './job-types.ts'
export { type JobKey, readKeyed } from './job-keys.ts'
export {
  type JobFilter,
  jobFilters,
  type JobReport,
  jobReportView,
  jobRunView,
  jobView,
  type JobView,
  listJobs,
  listQueue,
  type QueuePage,
  readJob,
  readRetryChain,
  toJobReportView,
  toJobRunView,
  toJobView,
} from './job-views.ts'
export { nextOccurrences } from './next-occurrence.ts'
export {
  claimNotifications,
  type Deliver,
  readNotifications,
  recordDelivery,
  recordDeliveryFailure,
  signNotification,
  type Webhook,
  webhookDeliver,
} from './notifications.ts'
export { isOwned, openScheduler, type OpenScheduler } from './open-scheduler.ts'
export { openProcessTable, type ProcessTable } from './process-table.ts'
export { openQueueCache, type QueueCache } from './queue.ts'
export type { Requested } from './requested.ts'
export { CRASH_ERROR, type EndOrphans, openOrphanEnder, recover, type RecoveryAction } from './recover.ts'
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
export type { RunStopReason } from './run-child.ts'
export { type Pruned, pruneRuns, type ReadLog, readLog, requestStop, runFolderOf } from './run-files.ts'
export type { HandlerContext, HandlerResult, JobDeps, JobHandler, JobHandlers, RunningJob } from './run-job.ts'
export { addArtifacts, recordLogPath, recordProcess } from './run-repository.ts'
export {
  nextWake,
  type NextWake,
  type RunEvent,
  runScheduler,
  type RunScheduler,
  type RunSummary,
} from './run-scheduler.ts'
export {
  type ClaimedRun,
  COMMAND_TYPE,
  commandRunner,
  type OrphanEnd,
  type ProcessIdentity,
  type RunnerBody,
  type RunnerPort,
} from './runner-settings.ts'
export {
  changeSchedule,
  createSchedule,
  deleteSchedule,
  digestSchedule,
  firingView,
  listSchedules,
  type Plans,
  type QueueStatus,
  readPlans,
  readSchedule,
  readStatus,
  runsAsPlanned,
  type ScheduleReport,
  scheduleView,
  toFiringView,
  toScheduleView,
} from './schedule.ts'
export type { Scheduler, SchedulerDeps, SchedulerRole, SchedulerSettings, Wait } from './scheduler.ts'
export type {
  NotificationKind,
  RetryVerdict,
  StoredFiring,
  StoredGroup,
  StoredJob,
  StoredJobNotification,
  StoredJobType,
  StoredReservation,
  StoredRun,
  StoredSchedule,
  StoredTemplate,
} from './stored-rows.ts'
export {
  digestWork,
  keyOfGroup,
  keyOfJob,
  namesOwnCommand,
  submitGroup,
  type SubmitJob,
  submitJob,
} from './submit-job.ts'
