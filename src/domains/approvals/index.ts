/** The exports of the approvals room: one inbox for every decision that a person has to make. */
export {
  approvalHash,
  type ApprovalRequest,
  type ApprovedContent,
  type DecisionValue,
  decisionValues,
  editsOf,
  type Resume,
  resumeSteps,
  type StoredApproval,
  type ReviewPacket,
  type Writers,
  writersAfter,
  writersOf,
} from './stored-approval.ts'
export { cancelApprovals } from './approval.ts'
export { requestApproval, supersedeApprovals } from './request-approval.ts'
export {
  type ApprovalType,
  type ApprovalTypeInput,
  type ApprovalTypes,
  type CountedInvited,
  defineApprovalType,
  findApprovalTypeFault,
  openApprovalTypes,
} from './approval-type.ts'
export { approverRef, nameOfActor, personIdsOf, showActor } from './approver.ts'
export { decideApproval } from './decide-approval.ts'
export { type Decided, readWith } from './decide-at-once.ts'
export {
  type ApprovalDetailView,
  approvalDetailView,
  approvalStatus,
  type ApprovalView,
  approvalView,
  personsNamed,
  resolveApprovalBody,
  type ResolvedApprovalView,
  resolvedApprovalView,
  toApprovalDetailView,
  toApprovalView,
  toResolvedApprovalView,
} from './contract.ts'
export { findRequestStandings, findStanding, listBlocked, type Standing } from './check-deciders.ts'
export { appChannel, openSignedPost, webhookChannel } from './notify-approvers.ts'
export { APPROVAL_KIND, APPROVAL_QUEUE, openApprovalDrive, recordResumedApproval } from './drive-approval.ts'
export {
  askChanged,
  escalateApprovals,
  expireApprovals,
  remindApprovers,
  repairApprovalTimes,
} from './sweep-approvals.ts'
export {
  type ApprovalEdit,
  checkApproved,
  findOldestPending,
  findPending,
  findUsualWaits,
  getApproval,
  listApprovals,
  listEdits,
} from './list-approvals.ts'
export type { ApprovalOwner, ApprovalDeps, JoinedVote, NoticeChannel, Notify, Resolution } from './deps.ts'
