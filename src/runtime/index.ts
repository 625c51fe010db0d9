/** The door of the runtime port: what domains wake, and what an adapter is made of. */
export type {
  Drive,
  JoinableTx,
  KindOptions,
  Next,
  Process,
  ProcessView,
  Runtime,
  RuntimeHealth,
  ScheduleSpec,
  ScheduleView,
  StuckProcess,
  StuckReason,
  WakeOptions,
  TurnSlot as TurnPlace,
} from './port.ts'
export { decideFence, type Fence, fenceToken } from './fence.ts'
export { checkNext, checkProcess, checkWake, DEFAULT_ATTEMPTS_MAX, DEFAULT_FAILURES_MAX, turnName } from './process.ts'
export { capabilitiesOf, catalogRuntime, decideCapabilities, type RuntimeProfile } from './profile.ts'
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
