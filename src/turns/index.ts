/** The exports of the driver kit: turns on rows, taken by the runtime or in this process, and the reconciler for lost ones. */
export { CALL_OVER, type Deadline, LATE, type Sleep, type Watcher, withDeadline } from './deadline.ts'
export {
  commitAndResume,
  type InProcessTurns,
  inProcessTurnName,
  openInProcessTurns,
  type Places,
  RENEW_MS,
  type Resumed,
  type Taking,
  type TurnOffer,
} from './in-process.ts'
export { overdueRows, reconcile, type Reconciling } from './reconcile.ts'
export {
  isStillHeld,
  keepHeld,
  settleTurn,
  takeTurn,
  type Turn,
  type TurnDeps,
  type TurnRoom,
} from './turn.ts'
export {
  ABORT_TOKEN,
  inProcessToken,
  isInProcessToken,
  type TurnTable,
  turnTable,
} from './turn-table.ts'
