/** The refusals of approvals: each code with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

export const approvalRefusals = {
  approval_expired: ['conflict', 'Ask again with a new command: nobody answered in time.'],
  approval_decided: ['conflict', 'Nothing is to be done; `facts` says who decided, and when.'],
  self_approval: ['forbidden', 'Somebody else who was asked decides, with a key of their own.'],
  agents_cannot_decide: ['forbidden', 'Use the key of a person.'],
  decision_value: ['invalid', 'Use one of the decisions in `facts.allowed`.'],
  payload_changed: ['conflict', 'Ask for a new approval of what would run now.'],
  'approvals.approval.cancelled': [
    'conflict',
    'Nothing is to be decided any more; the command says what became of it.',
  ],
  'approvals.approval.missing': ['conflict', 'Ask for an approval first, and wait for the answer.'],
  'approvals.approver.not_asked': ['forbidden', 'Leave it to whoever was asked: `facts.approver`.'],
  'approvals.approver.unresolved': ['invalid', 'Name a person or an org role that exists.'],
  'approvals.quorum.unreachable': ['invalid', 'Name more persons, or a role.'],
  'approvals.vote.repeated': ['conflict', 'Nothing more is to be done by you.'],
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
