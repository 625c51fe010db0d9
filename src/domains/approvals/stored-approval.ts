/** An approval as the database has it: the row, what was asked, and the contract of its type as it was when it was asked. */
import type { JsonObject, JsonValue } from '#kernel/json-value'
import type { ApprovalState } from '#kernel/machines/approval'
import type { RowOf } from '#store/rows'
import type { ApprovedContent } from './approval-hash.ts'

/** What a person may answer, in the words of the wire. */
export const decisionValues = ['approved', 'rejected', 'request_changes'] as const
export type DecisionValue = (typeof decisionValues)[number]

export const stateOfDecision = {
  approved: 'approved',
  rejected: 'rejected',
  request_changes: 'changes_requested',
} as const satisfies Record<DecisionValue, ApprovalState>

export function isDecisionValue(text: string): text is DecisionValue {
  return decisionValues.some((known) => known === text)
}

/** What the room that asked does when the answer is there. */
export const resumeSteps = [
  'run_command',
  'fail_command',
  /** As `fail_command`; whoever wants another plan submits a new command. */
  'fail_or_replan',
  'ask_for_input',
  'expire_command',
  'effect_happened',
  'effect_did_not_happen',
  /** Nobody answered, and the question is still open. */
  'ask_again',
] as const
export type ResumeStep = (typeof resumeSteps)[number]

export type Resume = {
  readonly on_approved: ResumeStep
  readonly on_rejected: ResumeStep
  readonly on_request_changes: ResumeStep
  readonly on_expired: ResumeStep
}

/** The part of an approval type that counts until the answer, copied when asked: a later edit of the type changes nothing. */
export type AskedContract = {
  readonly type_version: string
  /** Gates hold their command together; a question about one effect stands alone. */
  readonly about: 'command' | 'effect'
  readonly decision_values: readonly DecisionValue[]
  /** What each answer means, for people. */
  readonly meanings: Readonly<Partial<Record<DecisionValue, string>>>
  readonly reason_required: readonly DecisionValue[]
  readonly edits_allowed: boolean
  readonly resume: Resume
  readonly reminders_after_minutes: readonly number[]
  /** After so long the members of this org role may decide too. */
  readonly escalation: { readonly after_minutes: number; readonly role: string } | null
  readonly ui: JsonObject
}

export type EditRecord = { readonly by: string; readonly of: string; readonly fields: readonly string[] }

export type RequestPayload = ApprovedContent & {
  /** Named persons beside `approver`: `user:<uuid>`. */
  readonly approvers: readonly string[]
  readonly contract: AskedContract
  /** What the provider showed when it was asked about the effect. */
  readonly read_back?: JsonValue
  /** Set where an approver changed the arguments: who, which approval it replaces, which fields. */
  readonly edits?: EditRecord
}

/** The eight things that a person sees, all of them with hidden characters made visible. */
export type ReviewPacket = {
  readonly requested_action: {
    readonly summary: string
    readonly arguments: JsonObject
    readonly effects: readonly JsonValue[]
    readonly read_back?: JsonValue
  }
  readonly requester: string
  readonly why: string
  readonly affected: readonly string[]
  readonly policy: string
  readonly after_approval: string
  readonly risk_level: string
  /** A point in time, or `never`. */
  readonly expiration: string
  /** Where something was made visible that the eye would have missed. */
  readonly hidden_characters: readonly string[]
}

export type StoredApproval = RowOf<
  'concord.approvals',
  { readonly request_payload: RequestPayload; readonly review_packet: ReviewPacket }
>
