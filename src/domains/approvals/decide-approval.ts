/** A person decides: once, in time, about exactly what was shown; the command's own move commits with it. */
import type { Actor } from '#kernel/actor'
import { canonicalJson } from '#kernel/canonical-json'
import { KernelFault } from '#kernel/errors'
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
import type { StoredApproval } from './stored-approval.ts'
import { supersedeApprovals } from './request-approval.ts'
import { type Decider, personOf } from './approver.ts'
import {
  applyVote,
  requestContract,
  decideVote,
  type NextStep,
  nextStep,
  refuseChanged,
  refuseClosed,
  type Vote,
} from './decide-vote.ts'
import type { ApprovalDeps, LockedCommand } from './deps.ts'

type DecideApproval = {
  readonly workspaceId: string
  readonly approvalId: string
  readonly decision: string
  readonly reason?: string | undefined
  readonly payloadHash?: string | undefined
  /** Arguments to replace, by name, with an approval. */
  readonly edits?: JsonObject | undefined
  readonly traceId: string
}

export async function decideApproval(
  deps: ApprovalDeps,
  decider: Decider,
  input: DecideApproval,
): Promise<Decision<Decided>> {
  const known = await approvalTable.find(deps.db, input.workspaceId, input.approvalId)
  if (!known) return approvalTable.missing()
  const look = (tx: Tx) => lockSubject(tx, deps, known)
  const decided = await deps.db.transactionFrom(look, async (tx, locked): Promise<Decision<Decided>> => {
    const approval =
      locked.approvals.find(({ approval_id }) => approval_id === known.approval_id) ?? (await reread(tx, known))
    const vote = decideVote(approval, decider, input, locked.at)
    if (!vote.ok) return vote
    const payloadHash = approval.domain_effect_id === null ? locked.command?.payloadHash : undefined
    if (payloadHash !== undefined && payloadHash !== approval.payload_hash) return refuseChanged(approval)
    const ballot = {
      approval,
      vote: vote.value,
      locked,
      decider,
      by: { id: personOf(decider), kind: 'user', traceId: input.traceId } as const,
    }
    if (input.edits !== undefined) return approveWithEdits(tx, deps, ballot, input.edits)
    const cast = await recordVote(tx, deps, ballot)
    await failpoint('approvals.decision_written')
    return cast
  })
  await failpoint('approvals.decision_committed')
  return decided
}

/** One that was replaced is not among those that still count. */
async function reread(tx: Tx, known: StoredApproval): Promise<StoredApproval> {
  return (await approvalTable.find(tx, known.workspace_id, known.approval_id)) ?? known
}

export type Decided = {
  readonly approval: StoredApproval
  /** What the owner was told to do; `wait` while more persons or approvals are needed. */
  readonly next: NextStep
}

type PendingVote = {
  readonly approval: StoredApproval
  readonly vote: Vote
  readonly locked: LockedSubject
  readonly decider: Decider
  readonly by: Actor
}

/** `more` goes into the event beside the usual. */
async function recordVote(
  tx: Tx,
  deps: ApprovalDeps,
  { approval, vote, locked, by }: Omit<PendingVote, 'decider'>,
  more: Readonly<Record<string, unknown>> = {},
): Promise<Decision<Decided>> {
  const voted = applyVote(approval, vote, locked.at)
  const isFinal = voted.status !== 'pending'
  const payload = {
    decision: vote.decision,
    reason: vote.reason,
    approved_by: voted.approved_by,
    approvals_required: voted.approvals_required,
    from: approval.status,
    to: voted.status,
    ...more,
  }
  const type = isFinal ? 'approval_decided' : 'approval_voted'
  // One round trip: the rows are locked, so what the vote makes of them is known before it is written.
  const [saved, , next] = await together([
    saveVote(tx, approval, vote),
    approvalTable.append(tx, approval, actorAs(by, 'approver'), { type, at: locked.at, newId: deps.newId, payload }),
    isFinal ? applyDecision(tx, deps, voted, locked, by) : ('wait' as const),
  ])
  // Judged a moment ago under the lock, so only its deadline can have passed in between; what went along goes with it.
  if (!saved) return refuseClosed(approval, await findDatabaseTime(tx)) ?? unsettled(approval)
  return accept({ approval: saved, next })
}

function unsettled(approval: StoredApproval): never {
  throw new KernelFault('approvals.vote.unsettled', `approval ${approval.approval_id} is open and takes no vote`)
}

type LockedSubject = Locked & { readonly command?: LockedCommand }

/** The owner's row first, then all approvals of the subject in their order: everybody locks in one order. */
export async function lockSubject(
  tx: Tx,
  { owner }: Pick<ApprovalDeps, 'owner'>,
  approval: StoredApproval,
): Promise<LockedSubject> {
  // Sent in this order, in one round trip: the second waits in the database until the first has its lock.
  const [command, locked] = await together([owner.lockCommand?.(tx, approval), lockQuestions(tx, approval)])
  return command ? { ...locked, command } : locked
}

/** `approval` as it is after its move; `locked` as everything was before it. */
export async function applyDecision(
  tx: Tx,
  { owner, newId }: Pick<ApprovalDeps, 'owner' | 'newId'>,
  approval: StoredApproval,
  locked: LockedSubject,
  by: Actor,
): Promise<NextStep> {
  const others = locked.approvals.filter(({ approval_id }) => approval_id !== approval.approval_id)
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
  ballot: PendingVote,
  edits: JsonObject,
): Promise<Decision<Decided>> {
  const { approval, vote, by } = ballot
  const { revise } = deps.owner
  if (vote.decision !== 'approved') return refuseEdits('Edits go with an approval; ask for changes instead.')
  if (!requestContract(approval).edits_allowed || !revise) return refuseEdits('This kind of approval cannot be edited.')
  const guarded = guardValue(edits)
  if (!guarded.ok) return guarded
  const before = approval.request_payload.arguments
  // A field of the prototype (`toString`) is none of the arguments.
  const fields = Object.keys(edits).filter(
    (name) => !isSame(edits[name], Object.hasOwn(before, name) ? before[name] : undefined),
  )
  if (fields.length === 0) return recordVote(tx, deps, ballot)

  const revised = await revise(tx, approval, { ...before, ...edits }, by)
  if (!revised.ok) return revised
  const record = { by: vote.person, of: approval.approval_id, fields }
  const requests = revised.value.map((request) => ({ ...request, edits: record }))
  const asked = await supersedeApprovals(tx, deps, by, {
    workspaceId: approval.workspace_id,
    commandId: approval.command_id,
    why: 'edited',
    requests,
  })
  if (!asked.ok) return asked
  const [first] = asked.value
  if (!first) throw new KernelFault('approvals.revision.empty', 'an edited command was not asked about again')

  const locked = await lockQuestions(tx, approval)
  const answer = { decision: vote.decision, reason: vote.reason ?? undefined }
  const mine = asked.value.find(
    (fresh) =>
      fresh.approval_type === approval.approval_type && decideVote(fresh, ballot.decider, answer, locked.at).ok,
  )
  // The edit may have made it somebody else's to decide.
  if (!mine) return accept({ approval: first, next: 'wait' })
  return recordVote(
    tx,
    deps,
    { ...ballot, approval: mine, locked },
    { edited: fields, supersedes: approval.approval_id },
  )
}

function isSame(left: JsonObject[string] | undefined, right: JsonObject[string] | undefined): boolean {
  return left !== undefined && right !== undefined && canonicalJson(left) === canonicalJson(right)
}

function refuseEdits(reason: string): Refusal {
  return refuse('approvals.edits.not_allowed', reason, { path: 'edits' })
}
