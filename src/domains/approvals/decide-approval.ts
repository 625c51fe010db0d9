/** The decision of a person: once, in time, about exactly the content that was shown. The move of the command commits with it. */
import type { Actor, PersonActor } from '#kernel/actor'
import { canonicalJson } from '#kernel/canonical-json'
import { KernelFault } from '#kernel/errors'
import { findOrigins } from '#domains/identity'
import type { JsonObject } from '#kernel/json-value'
import { guardValue } from '#kernel/json-guard'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { failpoint, together, type Tx } from '#store'
import {
  actorAs,
  approvalTable,
  findDatabaseTime,
  type Locked,
  lockQuestions,
  saveCancelled,
  saveVote,
} from './approval.ts'
import { type DecideApproval, decideAtOnce, type Decided, factOf, isStale, readSeen } from './decide-at-once.ts'
import { type StoredApproval, writersAfter, writersOf } from './stored-approval.ts'
import { isAsked, refsOf } from './approver.ts'
import { findStanding } from './check-deciders.ts'
import { askAgain, supersedeApprovals } from './request-approval.ts'
import {
  applyVote,
  type Decider,
  requestContract,
  decideVote,
  type NextStep,
  nextStep,
  refuseChanged,
  refuseClosed,
  type Vote,
} from './decide-vote.ts'
import type { ApprovalDeps, LockedCommand } from './deps.ts'

export async function decideApproval(
  deps: ApprovalDeps,
  actor: PersonActor,
  input: DecideApproval,
): Promise<Decision<Decided>> {
  const { atOnce } = deps.owner
  const seen =
    atOnce && input.edits === undefined ? await readSeen(deps, atOnce, actor.principal.userId, input) : undefined
  const known = seen?.approval ?? (await approvalTable.find(deps.db, input.workspaceId, input.approvalId))
  if (!known) return approvalTable.missing()
  await failpoint('approvals.decision_read')
  const decided =
    (seen && (await decideAtOnce(deps, actor, input, seen))) ?? (await decideLocked(deps, actor, input, known))
  await failpoint('approvals.decision_committed')
  return decided.ok || !needsSomebodyElse.has(decided.code)
    ? decided
    : { ...decided, ...(await nameOthers(deps, known, decided)) }
}

const needsSomebodyElse: ReadonlySet<string> = new Set([
  'approvals.vote.repeated',
  'approvals.approver.issued_by_requester',
  'approvals.approver.issued_requester',
  'approvals.approver.same_issuer',
  'approvals.approver.role_by_requester',
  'self_approval',
])

/** Says who else could approve, or why nobody can. */
async function nameOthers(
  { db }: Pick<ApprovalDeps, 'db'>,
  approval: StoredApproval,
  { facts }: Refusal,
): Promise<Pick<Refusal, 'hint' | 'facts'>> {
  const standing = (await findStanding(db, [approval])).get(approval.approval_id)
  const could = standing?.could ?? []
  const shown = could.slice(0, NAMED_MAX).join(', ')
  const more = could.length > NAMED_MAX ? ` and ${could.length - NAMED_MAX} more` : ''
  const hint =
    could.length > 0
      ? `These people can approve it: ${shown}${more}.`
      : (standing?.blocked?.hint ?? 'Nobody else can approve it.')
  return { hint, facts: { ...facts, could: could.slice(0, NAMED_MAX) } }
}

const NAMED_MAX = 10

/** Locks the command and its approvals, so that it decides about any answer and knows the reason of a refusal. */
async function decideLocked(
  deps: ApprovalDeps,
  actor: PersonActor,
  input: DecideApproval,
  known: StoredApproval,
): Promise<Decision<Decided>> {
  const { principal } = actor
  const look = async (tx: Tx) => {
    const [locked, origins] = await together([
      lockSubject(tx, deps, known),
      findOrigins(tx, principal.userId, known.workspace_id),
    ])
    return { ...locked, origins }
  }
  return deps.db.transactionFrom(look, async (tx, { origins, ...locked }): Promise<Decision<Decided>> => {
    const decider = { ...principal, origins }
    const approval =
      locked.approvals.find(({ approval_id }) => approval_id === known.approval_id) ?? (await reread(tx, known))
    const vote = decideVote(approval, decider, input, locked.at, othersOf(approval, locked))
    if (!vote.ok) return vote
    const payloadHash = approval.domain_effect_id === null ? locked.command?.payloadHash : undefined
    if (payloadHash !== undefined && payloadHash !== approval.payload_hash) return refuseChanged(approval)
    if (vote.value.decision === 'approved' && isStale(approval, locked.command)) {
      const fresh = await askAgain(tx, deps, approval, actor.traceId)
      if (!fresh.ok) return fresh
      return tx.commitRefusal(refuseChanged({ ...approval, superseded_by: fresh.value.approval_id }))
    }
    const pending = { approval, decider, vote: vote.value, locked }
    if (input.edits !== undefined) return approveWithEdits(tx, deps, actor, pending, input.edits)
    const recorded = await recordVote(tx, deps, actor, pending)
    await failpoint('approvals.decision_written')
    return recorded
  })
}

/** An approval that was replaced is not among the locked ones. */
async function reread(tx: Tx, known: StoredApproval): Promise<StoredApproval> {
  return (await approvalTable.find(tx, known.workspace_id, known.approval_id)) ?? known
}

type PendingVote = {
  readonly approval: StoredApproval
  readonly decider: Decider
  readonly vote: Vote
  readonly locked: LockedSubject
}

/** `more` is added to the payload of the event. */
async function recordVote(
  tx: Tx,
  deps: ApprovalDeps,
  actor: PersonActor,
  { approval, vote, locked }: PendingVote,
  more: Readonly<Record<string, unknown>> = {},
): Promise<Decision<Decided>> {
  const voted = applyVote(approval, vote, locked.at)
  const fact = factOf(deps, { approval, vote, voted, at: locked.at }, more)
  // One round trip: the rows are locked, so the result of the vote is known before it is written.
  const [saved, , next] = await together([
    saveVote(tx, approval, vote),
    approvalTable.append(tx, approval, actorAs(actor, 'approver'), fact),
    voted.status !== 'pending' ? applyDecision(tx, deps, actor, voted, locked) : ('wait' as const),
  ])
  if (saved) return accept({ approval: saved, next })
  // The vote was valid under the lock, so only the deadline can have passed since. The refusal rolls back the other writes.
  const closed = refuseClosed(approval, await findDatabaseTime(tx))
  if (closed) return closed
  throw new KernelFault('approvals.vote.unsettled', `The approval ${approval.approval_id} is open and accepts no vote.`)
}

type LockedSubject = Locked & { readonly command?: LockedCommand }

/** Locks the row of the owner first, then all approvals of the subject by id: every caller uses this order. */
export async function lockSubject(
  tx: Tx,
  { owner }: Pick<ApprovalDeps, 'owner'>,
  approval: StoredApproval,
): Promise<LockedSubject> {
  // Both are sent in one round trip, in this order: the second waits in the database until the first has its lock.
  const [command, locked] = await together([owner.lockCommand?.(tx, approval), lockQuestions(tx, approval)])
  return command ? { ...locked, command } : locked
}

function othersOf({ approval_id }: StoredApproval, { approvals }: Locked): readonly StoredApproval[] {
  return approvals.filter((each) => each.approval_id !== approval_id)
}

/** `approval` is the row after its move; `locked` is the state before it. */
export async function applyDecision(
  tx: Tx,
  { owner, newId }: Pick<ApprovalDeps, 'owner' | 'newId'>,
  by: Actor,
  approval: StoredApproval,
  locked: LockedSubject,
): Promise<NextStep> {
  const others = othersOf(approval, locked)
  const next = nextStep(approval, others)
  if (approval.status !== 'approved') {
    for (const other of others.filter(({ status }) => status === 'pending')) {
      await saveCancelled(tx, actorAs(by, 'system'), other, { at: locked.at, newId, why: `another_${approval.status}` })
    }
  }
  await owner.onResolved(tx, { approval, next, by, at: locked.at }, locked.command)
  return next
}

async function approveWithEdits(
  tx: Tx,
  deps: ApprovalDeps,
  actor: PersonActor,
  pending: PendingVote,
  edits: JsonObject,
): Promise<Decision<Decided>> {
  const { approval, vote } = pending
  const { revise } = deps.owner
  if (vote.decision !== 'approved') return refuseEdits('Edits are possible only with the decision approved.')
  if (!requestContract(approval).edits_allowed || !revise) return refuseEdits('This kind of approval cannot be edited.')
  const guarded = guardValue(edits)
  if (!guarded.ok) return guarded
  const before = approval.request_payload.arguments
  // A field of the prototype (`toString`) is not an argument.
  const fields = Object.keys(edits).filter(
    (name) => !isSame(edits[name], Object.hasOwn(before, name) ? before[name] : undefined),
  )
  if (fields.length === 0) return recordVote(tx, deps, actor, pending)

  const revised = await revise(tx, approval, { ...before, ...edits }, actor)
  if (!revised.ok) return revised
  const record = {
    by: vote.person,
    of: approval.approval_id,
    refs: [...refsOf(actor.principal), ...(vote.represented ? refsOf(vote.represented) : [])],
    fields,
    reason: vote.reason,
  }
  const writers = writersAfter(writersOf(approval), approval.requested_by, record)
  const requests = revised.value.map((request) => ({ ...request, edits: record, writers }))
  const asked = await supersedeApprovals(tx, deps, actor, {
    workspaceId: approval.workspace_id,
    commandId: approval.command_id,
    why: 'edited',
    requests,
  })
  if (!asked.ok) return asked
  const first = asked.value.find((fresh) => isAsked(fresh, actor.principal)) ?? asked.value[0]
  if (!first) throw new KernelFault('approvals.revision.empty', 'No approval was requested for the edited command.')

  const locked = await lockQuestions(tx, approval)
  const answer = { decision: vote.decision, reason: vote.reason ?? undefined }
  for (const fresh of asked.value.filter(({ approval_type }) => approval_type === approval.approval_type)) {
    const again = decideVote(fresh, pending.decider, answer, locked.at, [])
    if (!again.ok) continue
    const more = { edited: fields, supersedes: approval.approval_id }
    return recordVote(tx, deps, actor, { ...pending, approval: fresh, vote: again.value, locked }, more)
  }
  // The editor is an author now, or the edited content is for others to decide.
  return accept({ approval: first, next: 'wait' })
}

function isSame(left: JsonObject[string] | undefined, right: JsonObject[string] | undefined): boolean {
  return left !== undefined && right !== undefined && canonicalJson(left) === canonicalJson(right)
}

function refuseEdits(reason: string): Refusal {
  return refuse('approvals.edits.not_allowed', reason, { path: 'edits' })
}
