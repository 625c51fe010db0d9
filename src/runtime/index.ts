/** The exports of the runtime port: the interface that domains call, and the parts an adapter is built from. */
export type {
  Drive,
  JoinableTx,
  KindOptions,
  Next,
  Process,
  ProcessView,
  Runtime,
  RuntimeHealth,
  RuntimeSchedule,
  ScheduleView,
  StuckProcess,
  StuckReason,
  WakeOptions,
} from './port.ts'
export { type Fence, fenceToken } from './fence.ts'
export {
  checkNext,
  checkProcess,
  checkWake,
  DEFAULT_ATTEMPTS_MAX,
  DEFAULT_FAILURES_MAX,
  turnName,
} from './process.ts'
export { capabilitiesOf, type RuntimeProfile } from './profile.ts'
export {
  decideQueue,
  decideQueueNames,
  DEFAULT_PER_WORKER,
  DEFAULT_QUEUE,
  type QueueSpec,
  semanticQueues,
} from './queues.ts'
export { decideEnvironment, inEnvironment, queuesIn } from './environment.ts'
export { nextDueTime } from './due-time.ts'
export { decideSchedule, nextFiringAt, planSchedule, SCHEDULE_KIND, type ScheduleLine } from './schedule-process.ts'
