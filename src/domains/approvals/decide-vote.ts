/** The pure decisions: the effect of one vote, and the next step after all of them. */
import type { Principal } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { decideMove } from '#kernel/machine'
import { approvalMachine } from '#kernel/machines/approval'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import { redactText } from '#kernel/secret-shapes'
import { showText } from '#kernel/visible-text'
import { effectResume, gateResume } from './approval-type.ts'
import {
  type AskedContract,
  coAuthorsOf,
  type DecisionValue,
  decisionValues,
  isDecisionValue,
  type ResumeStep,
  stateOfDecision,
  type StoredApproval,
} from './stored-approval.ts'
import { isAgent, isAsked, type Person, personOf, showActor } from './approver.ts'
import { findDependence, findTie, mayStandIn, refuseDependent, type Request, sayDependence } from './independence.ts'

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
  /** The key of the person; null for a token of the identity provider. */
  readonly keyId: string | null
  /** The person in whose place it is given; omitted for a vote in one's own name. */
  readonly for?: string
  readonly represented?: Person
  /** What ties the person to an author, where the installation counts it. */
  readonly tie?: string
}

export type Decider = Person & Pick<Principal, 'keyId'>

export const REASON_CHARS_MAX = 2_000

/** Another approval of the same command. */
export type Sibling = Pick<StoredApproval, 'status' | 'payload_hash' | 'approver' | 'approved_by' | 'approved_for'>

/** A person who wrote a part of the content is one of its authors. */
export function isAuthor({ request_payload }: Pick<StoredApproval, 'request_payload'>, person: string): boolean {
  return coAuthorsOf(request_payload).includes(person)
}

/** The approvals of `others` in which the person counts: one person counts once per command, whatever roles they hold. */
function countedIn(others: readonly Sibling[], person: string): readonly Sibling[] {
  return others.filter((other) => listCounted([other]).includes(person))
}

/** The persons who count for one of these approvals, themselves or through a stand-in. */
export function listCounted(
  others: readonly Pick<Sibling, 'status' | 'approved_by' | 'approved_for'>[],
): readonly string[] {
  return others.flatMap(({ status, approved_by, approved_for }) =>
    status === 'pending' || status === 'approved' ? [...approved_by, ...approved_for] : [],
  )
}

type Votable = Request & Pick<StoredApproval, 'approved_by' | 'approved_for'>

/** Whether a vote of the person can count: a person who is not counted for this approval, nor in `counted` for another one of the command. */
function isFree(approval: Votable, person: Person, counted: readonly string[]): boolean {
  const used = [...approval.approved_by, ...approval.approved_for, ...counted]
  return !isAgent(person) && person.role !== 'reader' && !used.includes(personOf(person))
}

/** Whether the approval of the person would count now, in their own name. */
export function mayApprove(approval: Votable, person: Person, counted: readonly string[]): boolean {
  return (
    isFree(approval, person, counted) &&
    isAsked(approval, person) &&
    findDependence(approval, person) === undefined &&
    !isAuthor(approval, personOf(person))
  )
}

/** In whose place the person would approve now: their own, or that of a person who could approve and has delegated to them. */
export function findApprover(approval: Votable, person: Person, counted: readonly string[]): Person | undefined {
  if (mayApprove(approval, person, counted)) return person
  if (!isFree(approval, person, counted)) return undefined
  return person.origins?.stands_for
    .filter((represented) => mayStandIn(approval, person, represented))
    .map(({ user_id, external_id, org_roles, origins }) => ({
      userId: user_id,
      externalId: external_id,
      orgRoles: org_roles,
      origins: { ...origins, stands_for: [] },
    }))
    .find((represented) => mayApprove(approval, represented, counted))
}

/**
 * `at` is the time of the database, and `others` are the other approvals of the same command that are not superseded. The statement that
 * writes checks again what a concurrent answer or the deadline changes: open, in time, this content, no author, each person once per command.
 * Credentials, roles and delegations are those of the read.
 */
export function decideVote(
  approval: StoredApproval,
  decider: Decider,
  answer: Answer,
  at: Date,
  others: readonly Sibling[],
): Decision<Vote> {
  if (isAgent(decider)) {
    return refuse('agents_cannot_decide', 'Only a person can decide an approval.', {
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
  const dependence = findDependence(approval, decider)
  if (dependence?.kind === 'is_requester') return refuseDependent(approval, dependence)
  const repeated = decision === 'approved' ? refuseRepeated(approval, person, others) : undefined
  if (repeated) return repeated
  // Only an approval uses a vote up: who has approved may still refuse, in their own name and in the place of another.
  const [votable, counted] =
    decision === 'approved' ? [approval, listCounted(others)] : [{ ...approval, approved_by: [], approved_for: [] }, []]
  const represented = isAsked(approval, decider) && !dependence ? undefined : findApprover(votable, decider, counted)
  if (!represented && !isAsked(approval, decider)) {
    return refuse('approvals.approver.not_asked', 'You are not an approver of this request.', {
      facts: { approver: showActor(approval.approver) },
    })
  }
  if (!represented && dependence) return refuseDependent(approval, dependence)
  if (decision === 'approved' && isAuthor(approval, person)) {
    return refuse('self_approval', 'You wrote a part of this request, so somebody else must confirm it.', {
      facts: { approver: showActor(approval.approver) },
    })
  }
  if (answer.payloadHash !== undefined && answer.payloadHash !== approval.payload_hash) return refuseChanged(approval)
  const reason = parseReason(answer.reason)
  if (!reason.ok) return reason
  if (reason.value === null && contract.reason_required.includes(decision)) {
    return refuse('approvals.reason.missing', `The decision ${decision} needs a reason.`, { path: 'reason' })
  }
  const tie = findTie(approval, decider)
  return accept({
    person,
    decision,
    reason: reason.value,
    keyId: decider.keyId,
    ...(tie ? { tie: sayDependence(tie) } : {}),
    ...(represented ? { for: personOf(represented), represented } : {}),
  })
}

/** One person counts once per command, themselves or through a stand-in. */
function refuseRepeated(approval: StoredApproval, person: string, others: readonly Sibling[]): Refusal | undefined {
  if ([...approval.approved_by, ...approval.approved_for].includes(person)) {
    return refuse('approvals.vote.repeated', 'Your approval is already counted. Somebody else must also approve.', {
      facts: { approved: approval.approved_by.length, required: approval.approvals_required },
    })
  }
  const [counted] = countedIn(others, person)
  if (!counted) return undefined
  const as = showActor(counted.approver)
  return refuse('approvals.vote.repeated', `Your approval of this command counts as ${as}. One person counts once.`, {
    facts: { counted_for: as },
  })
}

/**
 * Refuses with the first decision and its time, or with the reason why nobody can decide it now; undefined while the approval
 * is open.
 */
export function refuseClosed(approval: StoredApproval, at: Date): Refusal | undefined {
  const { status, expires_at, decided_at, decided_by, superseded_by } = approval
  switch (status) {
    case 'approved':
    case 'rejected':
    case 'changes_requested':
      return refuse('approval_decided', `${sayDecided(approval)}. The first decision counts.`, {
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
      return refuse(
        'approval_expired',
        'The deadline for this decision has passed. A missing decision counts as a refusal.',
        {
          hint: 'The requester may ask again.',
          facts: { expired_at: expires_at === null ? null : formatInstant(expires_at) },
        },
      )
    }
  }
}

function sayDecided({ status, decided_at }: StoredApproval): string {
  const at = decided_at === null ? '' : ` at ${formatInstant(decided_at)}`
  return status === 'changes_requested' ? `Changes were requested${at}` : `This was already ${status}${at}`
}

export function refuseChanged(approval: StoredApproval): Refusal {
  return refuse('payload_changed', 'The content that you saw is no longer the content that would run.', {
    path: 'payload_hash',
    hint: 'Read the approval again and decide on its current content.',
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

/** Applies one more vote to an open approval: distinct persons count, and one refusal is enough. */
export function tallyVote(tally: Tally, { person, decision }: Pick<Vote, 'person' | 'decision'>): Tally {
  if (decision !== 'approved') return { ...tally, status: stateOfDecision[decision] }
  const approved_by = [...new Set([...tally.approved_by, person])]
  return { ...tally, approved_by, status: approved_by.length >= tally.approvals_required ? 'approved' : tally.status }
}

/** Returns the row after the vote. */
export function applyVote(approval: StoredApproval, vote: Vote, at: Date): StoredApproval {
  const { approved_by, approved_for } = approval
  const places = [...approved_for, ...approved_by.slice(approved_for.length), vote.for ?? vote.person]
  const voted = {
    ...approval,
    ...tallyVote(approval, vote),
    approved_for: vote.decision === 'approved' ? places : approved_for,
  }
  if (voted.status === 'pending') return voted
  return { ...voted, decided_at: at, decided_by: vote.person, decision_reason: vote.reason }
}

/** The next step of the owner; `wait` while other answers are missing. */
export type NextStep = 'wait' | ResumeStep

/** `others` are the other approvals of the same command that are not superseded: all of them must approve the same content. */
export function nextStep(
  approval: StoredApproval,
  others: readonly Pick<StoredApproval, 'status' | 'payload_hash'>[],
): NextStep {
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
  // Rows of an older version may hold less than the type declares.
  const stored: Partial<AskedContract> = approval.request_payload.contract ?? {}
  return {
    type_version: '0',
    decision_values: about === 'command' ? decisionValues : ['approved', 'rejected'],
    meanings: {},
    reason_required: ['rejected', 'request_changes'],
    edits_allowed: false,
    editor_may_approve: false,
    resume: about === 'command' ? gateResume : effectResume,
    reminders_after_minutes: [],
    escalation: null,
    ui: {},
    ...stored,
    about,
  }
}
