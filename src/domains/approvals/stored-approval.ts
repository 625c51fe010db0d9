/** What is asked, what is stored about it, and what a person may answer. Pure. */
import { hash } from 'node:crypto'
import { canonicalJson } from '#kernel/canonical-json'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import type { ApprovalState } from '#kernel/machines/approval'
import type { RowOf } from '#store/rows'

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

type EditRecord = { readonly by: string; readonly of: string; readonly fields: readonly string[] }

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

/** Everything that a person says yes to. Change any part of it and it is another question. */
export type ApprovedContent = {
  /** As validated, not as sent. */
  readonly arguments: JsonObject
  /** What the plan will do, in the order of its declaration. */
  readonly effects: readonly JsonValue[]
  readonly policy_version: string
  readonly command_version: string
}

/** SHA-256 of the canonical JSON, in hex: the same content has the same hash in any key order. */
export function approvalHash({ arguments: args, effects, policy_version, command_version }: ApprovedContent): string {
  return hash('sha256', canonicalJson({ arguments: args, effects, policy_version, command_version }))
}

export type ApprovalRequest = {
  readonly workspaceId: string
  readonly commandId: string
  readonly approvalType: string
  /** On whose authority the command runs: `user:<uuid>`, also where an agent proposed it. */
  readonly requestedBy: string
  /** For types that take the approver from the request: a person, or an org role. */
  readonly approver?: string
  /** More persons who may answer. */
  readonly approvers?: readonly string[]
  /** More org roles whose members may answer. */
  readonly approverRoles?: readonly string[]
  readonly content: ApprovedContent
  readonly packet: PacketWords
  /** The four below only tighten what the type says: a higher risk, more persons, less time, no self-decision. */
  readonly riskLevel?: string
  readonly approvalsRequired?: number
  readonly expiresInMinutes?: number
  readonly selfDecisionAllowed?: boolean
  /** What a question about one effect is about, and what the provider showed when it was asked. */
  readonly domainEffectId?: string
  readonly readBack?: JsonValue
  readonly edits?: EditRecord
}

/** The packet's items that only the asking room knows; requester, risk and expiration come from the row itself. */
type PacketWords = {
  /** One sentence; the arguments and effects stand below it, exactly. */
  readonly requestedAction: string
  readonly why: string
  /** Data and artifacts, one each. */
  readonly affected: readonly string[]
  /** The policy that asked, and its reason. */
  readonly policy: string
  readonly afterApproval: string
}
