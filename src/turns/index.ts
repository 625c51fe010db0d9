/** The exports of the driver kit: turns on rows, taken by the runtime or in this process, and the reconciler for lost ones. */
export {
  commitAndResume,
  type InProcessTurns,
  inProcessTurnName,
  openInProcessTurns,
  RENEW_MS,
  type ReserveSlot,
  type Taking,
} from './in-process.ts'
export { openReconcile, overdueRows, reconcile } from './reconcile.ts'
export { ABORT_TOKEN, inProcessToken, isInProcessToken, turnTable } from './turn-table.ts'
export {
  capLeases,
  isStillHeld,
  keepHeld,
  LATE,
  refreshTurn,
  settleTurn,
  takeTurn,
  type Turn,
  type TurnDeps,
  type TurnRoom,
  withDeadline,
} from './turn.ts'
