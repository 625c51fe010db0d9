/** The refusals of approvals: each code with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

export const approvalRefusals = {
  approval_expired: ['conflict', 'Submit a new command: the approval expired.'],
  approval_decided: ['conflict', 'Read `facts`: it says who decided, and when.'],
  self_approval: ['forbidden', 'Another approver must decide, with their own key.'],
  agents_cannot_decide: ['forbidden', 'Use the key of a person.'],
  decision_value: ['invalid', 'Use one of the decisions in `facts.allowed`.'],
  payload_changed: ['conflict', 'Request a new approval of the current content.'],
  'approvals.approval.cancelled': ['conflict', 'Read the command: it shows what happened.'],
  'approvals.approval.missing': ['conflict', 'Ask for an approval first, and wait for the answer.'],
  'approvals.approver.not_asked': ['forbidden', 'Leave it to the approver in `facts.approver`.'],
  'approvals.approver.issued_by_requester': [
    'forbidden',
    'Leave it to a person whose credentials the requester did not issue.',
  ],
  'approvals.approver.issued_requester': ['forbidden', 'Leave it to a person who did not issue those credentials.'],
  'approvals.approver.same_issuer': ['forbidden', 'Leave it to a person whose credentials another person issued.'],
  'approvals.approver.role_by_requester': ['forbidden', 'Leave it to a person who had the role before the request.'],
  'approvals.approver.unresolved': ['invalid', 'Name a person or an org role that exists.'],
  'approvals.quorum.unreachable': ['invalid', 'Name more persons, or a role.'],
  'approvals.vote.repeated': ['conflict', 'Wait for the other approvers.'],
  'approvals.reason.missing': ['invalid', 'Send a `reason` in your own words.'],
  'approvals.edits.not_allowed': ['invalid', 'Leave the edits out, or ask for changes with a reason.'],
  'approvals.type.unknown': ['invalid', 'Use one of the approval types in `facts.known`.'],
  'approvals.field.missing': ['invalid', 'Give the fields that the approval type needs.'],
  'approvals.packet.incomplete': ['invalid', 'Fill in every item that a person decides on.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    approvals: typeof approvalRefusals
  }
}
