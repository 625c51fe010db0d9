/** What a room hands over when it asks: the content that is bound, who asks whom, and the words for the packet. */
import type { JsonValue } from '#kernel/json-value'
import type { ApprovedContent } from './approval-hash.ts'
import type { EditRecord } from './stored-approval.ts'

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
