/**
 * An approver changes the arguments and says yes. What was asked is replaced by a fresh question about the edited content,
 * which the owner has validated and the policy has judged again, and the yes counts for that one: what was approved is what runs.
 */
import { KernelFault } from '#kernel/errors'
import { canonicalJson } from '#kernel/canonical-json'
import { guardValue } from '#kernel/json-value-guard'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import type { Tx } from '#store'
import { lockQuestions } from './approval-repository.ts'
import { askedContract } from './asked-contract.ts'
import { type Ballot, castBallot, type Decided } from './cast-ballot.ts'
import { decideVote } from './decide-vote.ts'
import { supersedeApprovals } from './supersede-approvals.ts'
import type { ApprovalDeps } from './deps.ts'

export async function approveWithEdits(
  tx: Tx,
  deps: ApprovalDeps,
  ballot: Ballot,
  edits: JsonObject,
): Promise<Decision<Decided>> {
  const { approval, vote, by } = ballot
  const { revise } = deps.owner
  if (vote.decision !== 'approved') return refuseEdits('Edits go with an approval; ask for changes instead.')
  if (!askedContract(approval).edits_allowed || !revise) return refuseEdits('This kind of approval cannot be edited.')
  const guarded = guardValue(edits)
  if (!guarded.ok) return guarded
  const before = approval.request_payload.arguments
  // A field of the prototype (`toString`) is none of the arguments.
  const fields = Object.keys(edits).filter(
    (name) => !isSame(edits[name], Object.hasOwn(before, name) ? before[name] : undefined),
  )
  if (fields.length === 0) return castBallot(tx, deps, ballot)

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
  return castBallot(
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
