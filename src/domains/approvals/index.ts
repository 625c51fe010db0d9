/** The door of the approvals room: one inbox for every question that a person has to answer. */
export { approvalHash, type ApprovedContent } from './approval-hash.ts'
export type { ApprovalRequest } from './approval-request.ts'
export {
  type ApprovalType,
  type ApprovalTypeInput,
  defineApprovalType,
  findApprovalTypeFault,
} from './approval-type.ts'
export { type Decider, nameOfActor, personIdsOf, showActor } from './approver.ts'
export { cancelApprovals } from './cancel-approvals.ts'
export type { Decided } from './cast-ballot.ts'
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
export { type Blocked } from './decide-reach.ts'
export { findBlocked, findRequestBlocked } from './find-blocked.ts'
export { decideApproval } from './decide-approval.ts'
export { APPROVAL_KIND, APPROVAL_QUEUE, openApprovalDrive } from './drive-approval.ts'
export { expireApprovals } from './expire-approvals.ts'
export { checkApproved, findPending, getApproval } from './get-approval.ts'
export { type ApprovalEdit, listEdits } from './list-edits.ts'
export { listApprovals } from './list-approvals.ts'
export { escalateApprovals, remindApprovers } from './remind-approvers.ts'
export { appChannel, openSignedPost, webhookChannel } from './notice-channels.ts'
export { recordResumedApproval } from './record-resumed.ts'
export { requestApproval } from './request-approval.ts'
export { decisionValues, resumeSteps, type ReviewPacket, type StoredApproval } from './stored-approval.ts'
export { supersedeApprovals } from './supersede-approvals.ts'
export { type ApprovalTypes, openApprovalTypes } from './type-registry.ts'
export type {
  ApprovalOwner,
  ApprovalDeps,
  NoticeChannel,
  Notify,
  Resolution,
} from './deps.ts'
