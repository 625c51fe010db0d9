/** What one vote means and what follows from all of them. Pure. */
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { decideMove } from '#kernel/machine'
import { approvalMachine } from '#kernel/machines/approval'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import { redactText } from '#kernel/secret-shapes'
import { effectResume, gateResume } from './approval-type.ts'
import {
  type AskedContract,
  type DecisionValue,
  decisionValues,
  isDecisionValue,
  type ResumeStep,
  stateOfDecision,
  type StoredApproval,
} from './stored-approval.ts'
import { type Decider, isAgent, isAsked, personOf, showActor } from './approver.ts'
import { showText } from './review-packet.ts'

type Answer = {
  readonly decision: string
  readonly reason?: string | undefined
  /** The hash of what the person saw. */
  readonly payloadHash?: string | undefined
}

export type Vote = {
  readonly person: string
  readonly decision: DecisionValue
  readonly reason: string | null
}

export const REASON_CHARS_MAX = 2_000

/** `at` is the database's time. Everything here is asked again by the statement that writes, so a race cannot slip between. */
export function decideVote(approval: StoredApproval, decider: Decider, answer: Answer, at: Date): Decision<Vote> {
  if (isAgent(decider)) {
    return refuse('agents_cannot_decide', 'Only a person can decide about an approval.', {
      hint: 'Ask one of the approvers.',
    })
  }
  const contract = requestContract(approval)
  const { decision } = answer
  if (!isDecisionValue(decision) || !contract.decision_values.includes(decision)) {
    return refuse('decision_value', `${quote(decision)} is not a decision that this approval takes.`, {
      path: 'decision',
      facts: { allowed: contract.decision_values },
    })
  }
  const closed = refuseClosed(approval, at)
  if (closed) return closed
  const move = decideMove(approvalMachine, approval.status, stateOfDecision[decision], 'approver')
  if (!move.ok) return move
  const person = personOf(decider)
  if (person === approval.requested_by && !approval.self_decision_allowed) {
    return refuse('self_approval', 'You asked for this; somebody else must decide.', {
      facts: { approver: showActor(approval.approver) },
    })
  }
  if (!isAsked(approval, decider)) {
    return refuse('approvals.approver.not_asked', 'This decision is not yours.', {
      facts: { approver: showActor(approval.approver) },
    })
  }
  if (decision === 'approved' && approval.approved_by.includes(person)) {
    return refuse('approvals.vote.repeated', 'Your approval is counted already; somebody else must approve too.', {
      facts: { approved: approval.approved_by.length, required: approval.approvals_required },
    })
  }
  if (answer.payloadHash !== undefined && answer.payloadHash !== approval.payload_hash) return refuseChanged(approval)
  const reason = parseReason(answer.reason)
  if (!reason.ok) return reason
  if (reason.value === null && contract.reason_required.includes(decision)) {
    return refuse('approvals.reason.missing', `The decision ${decision} needs a reason.`, { path: 'reason' })
  }
  return accept({ person, decision, reason: reason.value })
}

/** Says who was first and when, or why nobody can decide any more; undefined while the approval is open. */
export function refuseClosed(approval: StoredApproval, at: Date): Refusal | undefined {
  const { status, expires_at, decided_at, decided_by, superseded_by } = approval
  switch (status) {
    case 'approved':
    case 'rejected':
    case 'changes_requested':
      return refuse('approval_decided', `${sayDecided(approval)}; the first decision stands.`, {
        facts: {
          status,
          decided_by: decided_by === null ? null : showActor(decided_by),
          decided_at: decided_at === null ? null : formatInstant(decided_at),
        },
      })
    case 'cancelled':
      if (superseded_by !== null) return refuseChanged(approval)
      return refuse('approvals.approval.cancelled', 'This approval was closed before anybody decided.', {
        facts: { status, why: approval.decision_reason },
      })
    case 'expired':
    case 'pending': {
      if (status === 'pending' && (expires_at === null || at.getTime() < expires_at.getTime())) return undefined
      return refuse('approval_expired', 'The time for this decision is over, and no decision is a refusal.', {
        hint: 'The requester may ask again.',
        facts: { expired_at: expires_at === null ? null : formatInstant(expires_at) },
      })
    }
  }
}

function sayDecided({ status, decided_at }: StoredApproval): string {
  const at = decided_at === null ? '' : ` at ${formatInstant(decided_at)}`
  return status === 'changes_requested' ? `Changes were asked for${at}` : `This was ${status} already${at}`
}

export function refuseChanged(approval: StoredApproval): Refusal {
  return refuse('payload_changed', 'What you looked at is no longer what would run.', {
    path: 'payload_hash',
    hint: 'Read the approval again and decide on what it shows now.',
    facts: {
      payload_hash: approval.payload_hash,
      ...(approval.superseded_by === null ? {} : { superseded_by: encodeId('approval', approval.superseded_by) }),
    },
  })
}

function parseReason(text: string | undefined): Decision<string | null> {
  const reason = redactText(showText(text?.trim() ?? ''))
  if (reason.length <= REASON_CHARS_MAX) return accept(reason === '' ? null : reason)
  return refuse('api.field.value', `A reason has at most ${REASON_CHARS_MAX} characters.`, {
    path: 'reason',
    facts: { maximum: REASON_CHARS_MAX },
  })
}

export type Tally = Pick<StoredApproval, 'status' | 'approved_by' | 'approvals_required'>

/** What one more vote makes of an open approval: distinct persons count, and one refusal is enough. */
export function tallyVote(tally: Tally, { person, decision }: Pick<Vote, 'person' | 'decision'>): Tally {
  if (decision !== 'approved') return { ...tally, status: stateOfDecision[decision] }
  const approved_by = [...new Set([...tally.approved_by, person])]
  return { ...tally, approved_by, status: approved_by.length >= tally.approvals_required ? 'approved' : tally.status }
}

/** The row as the vote leaves it. */
export function applyVote(approval: StoredApproval, vote: Vote, at: Date): StoredApproval {
  const voted = { ...approval, ...tallyVote(approval, vote) }
  if (voted.status === 'pending') return voted
  return { ...voted, decided_at: at, decided_by: vote.person, decision_reason: vote.reason }
}

/** What the asking room does now; `wait` while others have not answered yet. */
export type NextStep = 'wait' | ResumeStep

/** `others` are the other approvals of the same command that nothing has replaced: all of them must agree, for one content. */
export function nextStep(approval: StoredApproval, others: readonly StoredApproval[]): NextStep {
  const { about, resume } = requestContract(approval)
  switch (approval.status) {
    case 'pending':
      return 'wait'
    case 'approved': {
      const isAgreed = others.every(
        ({ status, payload_hash }) => status === 'approved' && payload_hash === approval.payload_hash,
      )
      return about === 'effect' || isAgreed ? resume.on_approved : 'wait'
    }
    case 'rejected':
      return resume.on_rejected
    case 'changes_requested':
      return resume.on_request_changes
    case 'expired':
      return resume.on_expired
    case 'cancelled':
      return 'wait'
  }
}

export function requestContract(approval: Pick<StoredApproval, 'request_payload' | 'domain_effect_id'>): AskedContract {
  const about = approval.domain_effect_id === null ? 'command' : 'effect'
  // Rows written by hand or by an older version may hold less than the type says.
  const stored: Partial<AskedContract> = approval.request_payload.contract ?? {}
  return {
    type_version: '0',
    decision_values: about === 'command' ? decisionValues : ['approved', 'rejected'],
    meanings: {},
    reason_required: ['rejected', 'request_changes'],
    edits_allowed: false,
    resume: about === 'command' ? gateResume : effectResume,
    reminders_after_minutes: [],
    escalation: null,
    ui: {},
    ...stored,
    about,
  }
}
