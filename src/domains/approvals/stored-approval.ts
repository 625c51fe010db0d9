/** The types of an approval: its request, its stored row, and its decisions. */
import { hash } from 'node:crypto'
import { canonicalJson } from '#kernel/canonical-json'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import type { ApprovalState } from '#kernel/machines/approval'
import type { RowOf } from '#store/rows'

/** The decisions of a person, as in the API. */
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

/** The steps of the owner after an answer. */
export const resumeSteps = [
  'run_command',
  'fail_command',
  /** Like `fail_command`; another plan needs a new command. */
  'fail_or_replan',
  'ask_for_input',
  'expire_command',
  'effect_happened',
  'effect_did_not_happen',
  /** There was no answer, so the question stays open. */
  'ask_again',
] as const
export type ResumeStep = (typeof resumeSteps)[number]

export type Resume = {
  readonly on_approved: ResumeStep
  readonly on_rejected: ResumeStep
  readonly on_request_changes: ResumeStep
  readonly on_expired: ResumeStep
}

/**
 * The part of an approval type that applies until the answer. It is copied to the row, so a later change of the type has no
 * effect.
 */
export type AskedContract = {
  readonly type_version: string
  /** All approvals about a command must agree; an approval about one effect is independent. */
  readonly about: 'command' | 'effect'
  readonly decision_values: readonly DecisionValue[]
  /** The meaning of each decision, for people. */
  readonly meanings: Readonly<Partial<Record<DecisionValue, string>>>
  readonly reason_required: readonly DecisionValue[]
  readonly edits_allowed: boolean
  /** False: the approval of the person who edited the request does not count for the edited content. */
  readonly editor_may_approve: boolean
  readonly resume: Resume
  readonly reminders_after_minutes: readonly number[]
  /** After this time the members of the org role may also decide. */
  readonly escalation: { readonly after_minutes: number; readonly role: string } | null
  readonly ui: JsonObject
  /** People whom the requester invited count; a setting of the installation. */
  readonly counts_invited?: boolean
  /** False: people who have an issuer in common with the requester do not count either. */
  readonly counts_same_issuer?: boolean
}

/** What a person other than the requester wrote into the request: an approver with an approval, or a person who supplied input. */
type EditRecord = {
  readonly by: string
  /** The replaced approval; omitted for input. */
  readonly of?: string
  /** The references that name the person. In an approval that the editor could have decided, the requester may confirm. Absent in older rows. */
  readonly refs?: readonly string[]
  readonly fields: readonly string[]
  /** Absent in older rows. */
  readonly reason?: string | null
  /** Only in older rows: the editor, if their approval does not count. */
  readonly author?: string
}

/** By argument: the person who wrote it last, if that was not the requester. */
export type Writers = Readonly<Record<string, string>>

export function writersAfter(
  writers: Writers,
  requestedBy: string,
  { by, fields }: Pick<EditRecord, 'by' | 'fields'>,
): Writers {
  const kept = Object.entries(writers).filter(([name]) => !fields.includes(name))
  return Object.fromEntries([...kept, ...(by === requestedBy ? [] : fields.map((name) => [name, by]))])
}

/** An older row knows only the last editor. */
export function writersOf({ request_payload, requested_by }: StoredApproval): Writers {
  const { writers, edits } = request_payload
  return writers ?? (edits ? writersAfter({}, requested_by, edits) : {})
}

/** The persons other than the requester who wrote a part of the content, and whose approval therefore does not count. */
export function coAuthorsOf({ authors, edits }: Pick<RequestPayload, 'authors' | 'edits'>): readonly string[] {
  return authors ?? (edits?.author === undefined ? [] : [edits.author])
}

export type RequestPayload = ApprovedContent & {
  /** Further named persons: `user:<uuid>`. */
  readonly approvers: readonly string[]
  readonly contract: AskedContract
  /** When the command was requested; omitted by older versions. */
  readonly requested_at?: string
  /** The answer of the provider to a query about the effect. */
  readonly read_back?: JsonValue
  readonly edits?: EditRecord
  readonly writers?: Writers
  /** The writers whose approval does not count; omitted if there are none. */
  readonly authors?: readonly string[]
  /** By author of the content (`user:<uuid>`): through whose hands their credentials came. Only authors who have issuers. */
  readonly issuers?: Readonly<Record<string, readonly string[]>>
}

/** The eight items that a person sees, with hidden characters made visible. */
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
  /** The paths of hidden characters that were made visible. */
  readonly hidden_characters: readonly string[]
}

export type StoredApproval = Omit<
  RowOf<'concord.approvals', { readonly request_payload: RequestPayload; readonly review_packet: ReviewPacket }>,
  'vote_key_id' | 'vote_key_is_agent'
>

/** The content that a person approves. A change of any part needs a new approval. */
export type ApprovedContent = {
  /** After validation, not as sent. */
  readonly arguments: JsonObject
  /** The effects of the plan, in the order of declaration. */
  readonly effects: readonly JsonValue[]
  readonly policy_version: string
  readonly command_version: string
}

/** SHA-256 of the canonical JSON, in hex: the same content has the same hash in any key order. */
export function approvalHash({ arguments: args, effects, policy_version, command_version }: ApprovedContent): string {
  return hash('sha256', canonicalJson({ arguments: args, effects, policy_version, command_version }))
}

/** Those who wrote the content stay its authors when it is asked about again. A row of an older version shows only where the requester confirms. */
export function editsOf(approval: StoredApproval): Pick<ApprovalRequest, 'edits' | 'writers'> {
  const { request_payload, requested_by, approver } = approval
  const { edits, approvers } = request_payload
  const writers = writersOf(approval)
  if (!edits) return Object.keys(writers).length === 0 ? {} : { writers }
  return { writers, edits: { refs: approvers.includes(requested_by) ? [approver] : [], ...edits } }
}

export type ApprovalRequest = {
  readonly workspaceId: string
  readonly commandId: string
  readonly approvalType: string
  /** The person whose authority the command has: `user:<uuid>`, even if an agent proposed it. */
  readonly requestedBy: string
  /** When the command was requested, if that was before this approval. */
  readonly requestedAt?: Date
  /** For types that take the approver from the request: a person, or an org role. */
  readonly approver?: string
  /** More persons who may answer. */
  readonly approvers?: readonly string[]
  /** More org roles whose members may answer. */
  readonly approverRoles?: readonly string[]
  readonly content: ApprovedContent
  readonly packet: PacketWords
  /** The next four only tighten the type: a higher risk, more persons, less time, no self-decision. */
  readonly riskLevel?: string
  readonly approvalsRequired?: number
  readonly expiresInMinutes?: number
  readonly selfDecisionAllowed?: boolean
  /** For an approval about one effect: the effect, and the answer of the provider. */
  readonly domainEffectId?: string
  readonly readBack?: JsonValue
  readonly edits?: Omit<EditRecord, 'author'>
  readonly writers?: Writers
  /** An agent proposed the command with the key of the requester, who then confirms no edit. */
  readonly isByAgent?: boolean
}

/** The items of the packet that only the owner knows; requester, risk and expiration come from the row. */
type PacketWords = {
  /** One sentence; the exact arguments and effects follow it. */
  readonly requestedAction: string
  readonly why: string
  /** Data and artifacts, one each. */
  readonly affected: readonly string[]
  /** The policy that requires the approval, and its reason. */
  readonly policy: string
  readonly afterApproval: string
}
