/** The exports of the budgets room: accounts of cost in a tree. */
export {
  amountOf,
  closeAccount,
  findLastTry,
  freeOf,
  listChildren,
  openAccount,
  raiseLimit,
  readAccount,
  readRoom,
  releaseCost,
  reserveCost,
  settleCost,
  settleOpenCosts,
} from './account.ts'
export { reserveCosts, settleCosts } from './batch.ts'
export {
  budgetView,
  liftQuarantineBody,
  quarantineListView,
  quarantineView,
  toBudgetView,
  toQuarantineView,
} from './contract.ts'
export { liftQuarantine, listQuarantines } from './quarantine.ts'
