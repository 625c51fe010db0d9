/** The exports of the runtime port: the interface that domains call, and the parts an adapter is built from. */
export {
  type Drive,
  type JoinableTx,
  type KindOptions,
  type Next,
  type Process,
  type ProcessView,
  type Runtime,
  type RuntimeHealth,
  type ScheduleSpec,
  type ScheduleView,
  type StuckProcess,
  type StuckReason,
  stuckReasons,
  type WakeOptions,
  type TurnSlot,
  type TurnSlot as TurnPlace,
} from './port.ts'
export { decideFence, type Fence, fenceNumber, fenceToken } from './fence.ts'
export {
  checkNext,
  checkProcess,
  checkWake,
  DEFAULT_ATTEMPTS_MAX,
  DEFAULT_FAILURES_MAX,
  isKind,
  isProcessId,
  PROCESS_ID_LENGTH_MAX,
  turnName,
} from './process.ts'
export {
  capabilitiesOf,
  type CapabilityNeed,
  catalogRuntime,
  decideCapabilities,
  type Grade,
  grades,
  type RuntimeProfile,
} from './profile.ts'
export {
  decideQueue,
  decideQueueNames,
  DEFAULT_PER_WORKER,
  DEFAULT_QUEUE,
  type QueueSpec,
  semanticQueues,
} from './queues.ts'
export {
  decideEnvironment,
  type EngineQueues,
  inEnvironment,
  queueIn,
  queueOutOf,
  queuesIn,
} from './environment.ts'
export { dueTimes, nextDueTime } from './due-time.ts'
export {
  decideSchedule,
  nextFiringAt,
  planSchedule,
  SCHEDULE_KIND,
  type ScheduleLine,
  type ScheduleTurn,
} from './schedule-process.ts'
