/** The exports of the driver kit: turns on rows, taken by the runtime or in this process, and what finds lost ones again. */
export { LATE, withDeadline } from './deadline.ts'
export {
  commitAndResume,
  type InProcessTurns,
  openInProcessTurns,
  type Places,
  RENEW_MS,
  type Taking,
} from './in-process.ts'
export { overdueRows, reconcile } from './reconcile.ts'
export { isStillHeld, keepHeld, settleTurn, takeTurn, type Turn, type TurnRoom } from './turn.ts'
export { ABORT_TOKEN, inProcessToken, isInProcessToken, turnTable } from './turn-table.ts'
