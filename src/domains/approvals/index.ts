/** The door of the approvals room: one inbox for every question that a person has to answer. */
export { approvalHash, type ApprovedContent } from './approval-hash.ts'
export type { ApprovalRequest, PacketWords } from './approval-request.ts'
export {
  type ApprovalType,
  type ApprovalTypeInput,
  type ApproverRule,
  defineApprovalType,
  findApprovalTypeFault,
} from './approval-type.ts'
export {
  approverRef,
  type Asked,
  type Decider,
  isAgent,
  nameOfActor,
  personIdsOf,
  personOf,
  showActor,
} from './approver.ts'
export { builtInApprovalTypes, commandApproval, escalation, override, reconcileEffect } from './built-in-types.ts'
export { type CancelApprovals, cancelApprovals } from './cancel-approvals.ts'
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
export { blockCodes, type BlockCode, type Blocked } from './decide-reach.ts'
export { type BlockedApprovals, findBlocked, findRequestBlocked } from './find-blocked.ts'
export { type DecideApproval, decideApproval } from './decide-approval.ts'
export { type Answer, decideVote, type NextStep, nextStep, type Tally, tallyVote, type Vote } from './decide-vote.ts'
export type { ApprovalDriveDeps } from './deliver-notices.ts'
export { APPROVAL_KIND, APPROVAL_QUEUE, openApprovalDrive } from './drive-approval.ts'
export { type ApprovalEventType, approvalEventTypes } from './events.ts'
export { expireApprovals, type Swept } from './expire-approvals.ts'
export { checkApproved, type CommandRef, findPending, getApproval } from './get-approval.ts'
export { type ApprovalEdit, listEdits } from './list-edits.ts'
export { type ApprovalPage, type ListApprovals, listApprovals } from './list-approvals.ts'
export {
  CROWDED_AT,
  escalateApprovals,
  listCrowdedTypes,
  listDueReminders,
  recordNotified,
  remindApprovers,
} from './remind-approvers.ts'
export { appChannel, noticeBody, webhookChannel, type WebhookNotices } from './notice-channels.ts'
export { recordResumedApproval } from './record-resumed.ts'
export { type Requested, requestApproval } from './request-approval.ts'
export { buildPacket, type PacketFacts, type PacketItem, packetItems } from './review-packet.ts'
export {
  type AskedContract,
  type DecisionValue,
  decisionValues,
  type RequestPayload,
  type Resume,
  type ResumeStep,
  resumeSteps,
  type ReviewPacket,
  type StoredApproval,
} from './stored-approval.ts'
export { type SupersedeApprovals, supersedeApprovals } from './supersede-approvals.ts'
export { type ApprovalTypes, openApprovalTypes } from './type-registry.ts'
export { showText, showValue } from './visible-text.ts'
export type {
  ApprovalNotice,
  ApprovalOwner,
  ApprovalDeps,
  Delivery,
  NoticeChannel,
  NoticeName,
  Notify,
  Resolution,
  Sweep,
} from './deps.ts'
