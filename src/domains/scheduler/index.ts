/** The door of the scheduler room: jobs on one machine, on SQLite, that cannot lose their order. */
export { type AskedDirect, askForDirect, type FollowDirect, followDirect, startAskedDirect } from './ask-for-direct.ts'
export { cancelJob, changeJob, normalizeQueue } from './change-job.ts'
export {
  checkInvariants,
  describeSelfCheck,
  type Execution,
  type SelfCheck,
  type Violation,
} from './check-invariants.ts'
export { type Claimed, claimNext, type Waiting } from './claim-next.ts'
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
export { changeSchedule, createSchedule, deleteSchedule } from './define-schedule.ts'
export { archiveTemplate, changeTemplate, createTemplate } from './define-template.ts'
export { claimNotifications, recordDelivery, recordDeliveryFailure } from './deliver-notifications.ts'
export { type EndOrphans, openOrphanEnder } from './end-orphan.ts'
export { fireDueSchedules } from './fire-due-schedules.ts'
export { fireSchedule } from './fire-schedule.ts'
export { type FinishedRun, finishRun, type RunEnd } from './finish-run.ts'
export { finishRunSurely, type OutcomeAlert, type Surely } from './finish-surely.ts'
export type { GroupCounts } from './group-repository.ts'
export { type GroupStatus, groupStatuses } from './group-status.ts'
export {
  groupView,
  jobTypeView,
  selfCheckView,
  submittedGroupView,
  toGroupView,
  toJobTypeView,
  toSelfCheckView,
  toSubmittedGroupView,
} from './group-views.ts'
export { defaultJobTypes, type JobTypeBody, registerJobType } from './job-types.ts'
export {
  jobReportView,
  type JobRunView,
  jobRunView,
  type JobView,
  jobView,
  toJobReportView,
  toJobRunView,
  toJobView,
} from './job-views.ts'
export {
  type JobFilter,
  jobFilters,
  type JobReport,
  listJobs,
  listQueue,
  type QueuePage,
  readJob,
  readRetryChain,
} from './list-jobs.ts'
export { migrate as migrateSchedulerFile } from './migrate.ts'
export { moveJob, placeJob, swapJobs } from './move-job.ts'
export { nextOccurrences } from './next-occurrence.ts'
export { nextWake, type Wake } from './next-wake.ts'
export { type OpenScheduler, openScheduler } from './open-scheduler.ts'
export { isOwned } from './owner-lock.ts'
export {
  type PointPlan,
  type SchedulerFault,
  SchedulerFaultInjected,
  type SchedulerPoint,
  schedulerPoints,
} from './failpoints.ts'
export { openProcessTable, type ProcessTable, RUN_VARIABLE } from './process-table.ts'
export { type Pruned, pruneRuns } from './prune-runs.ts'
export { openQueueCache, type QueueCache } from './queue-cache.ts'
export { readLog, type ReadLog } from './read-log.ts'
export {
  namesOwnCommand,
  type Plans,
  readNotifications,
  readPlans,
  readReservations,
  readSchedule,
  type ScheduleReport,
} from './read-plans.ts'
export { addArtifacts, recordLogPath, recordProcess } from './record-run.ts'
export { CRASH_ERROR, recover, type RecoveryAction } from './recover.ts'
export { releaseReservation, renewReservation, reserve, tickReservations } from './reservations.ts'
export { retryJob } from './retry-job.ts'
export { type StopReason, stopReasons, type Wait } from './run-child.ts'
export { type RunDirect, runDirect } from './run-direct.ts'
export type { HandlerContext, HandlerResult, JobHandler, JobHandlers } from './run-handler.ts'
export { type JobDeps, type RunningJob, SHUTDOWN_ERROR } from './run-job.ts'
export { runFolderOf } from './run-log.ts'
export { type RunEvent, type RunScheduler, runScheduler, type RunSummary } from './run-scheduler.ts'
export type { ClaimedRun, OrphanEnd, ProcessIdentity, RunnerPort } from './runner-port.ts'
export {
  COMMAND_TYPE,
  commandParams,
  commandRunner,
  plainVariables,
  type RunnerBody,
  runnerBody,
} from './runner-settings.ts'
export {
  firingView,
  notificationView,
  reservationView,
  scheduleView,
  templateView,
  toFiringView,
  toNotificationView,
  toReservationView,
  toScheduleView,
  toTemplateView,
} from './schedule-views.ts'
export type { Scheduler, SchedulerRole, SchedulerSettings, SchedulerDeps } from './scheduler.ts'
export { type Deliver, signNotification, type Webhook, webhookDeliver } from './send-notifications.ts'
export { startDirectJob } from './start-direct-job.ts'
export { requestStop } from './stop-request.ts'
export { type GroupReport, listGroups, readGroup, type SubmittedGroup, submitGroup } from './submit-group.ts'
export { type SubmitJob, submitJob } from './submit-job.ts'
export type {
  NotificationKind,
  RetryVerdict,
  StoredFiring,
  StoredGroup,
  StoredJob,
  StoredJobType,
  StoredNotification,
  StoredReservation,
  StoredRun,
  StoredSchedule,
  StoredTemplate,
} from './stored-rows.ts'
export { type Sleep, waitForReservation } from './wait-for-reservation.ts'
