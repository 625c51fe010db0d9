/**
 * The common answer in one read and one write: the last vote for a command, without edits. The read locks nothing, so the write compares the versions
 * of both rows and repeats every condition. If it changes nothing, the caller decides again under the locks.
 */
import type { PersonActor } from '#kernel/actor'
import { type Origins, originsColumn } from '#domains/identity'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision } from '#kernel/refusal'
import { isUuid } from '#kernel/ids'
import { type Statement, statement } from '#store'
import { actorAs, approvalTable, voteExpressions } from './approval.ts'
import { applyVote, decideVote, type NextStep, nextStep, type Vote } from './decide-vote.ts'
import type { AnswerAtOnce, ApprovalDeps, LockedCommand, Readable } from './deps.ts'
import { stateOfDecision, type StoredApproval } from './stored-approval.ts'

export type Decided = {
  readonly approval: StoredApproval
  /** The next step of the owner; `wait` while more persons or approvals are needed. */
  readonly next: NextStep
}

export type DecideApproval = {
  readonly workspaceId: string
  readonly approvalId: string
  readonly decision: string
  readonly reason?: string | undefined
  readonly payloadHash?: string | undefined
  /** Arguments to replace, by name, with an approval. */
  readonly edits?: JsonObject | undefined
}

/** `owned` is a column of the owner about the command of the approval `t`.  $1 approval, $2 workspace, $3 the person who decides. */
export function readWith(owned: string): Statement<Readable> {
  return statement(
    'approvals.read_answerable',
    `select t.*, t.xmin::text as version, statement_timestamp() as asked_at,
       coalesce((select json_agg(json_build_object('status', o.status, 'payload_hash', o.payload_hash,
            'approver', o.approver, 'approved_by', o.approved_by,
            'approved_for', o.approved_for))
          from concord.approvals o
         where o.command_id = t.command_id and o.domain_effect_id is null and o.superseded_by is null
           and o.approval_id <> t.approval_id), '[]') as others,
       ${originsColumn('$3::uuid', '$2::uuid')} as origins,
       ${owned} as owned
  from concord.approvals t where t.approval_id = $1::uuid and (t.workspace_id = $2::uuid) is true`,
  )
}

type Seen = Pick<Readable, 'version' | 'others'> & {
  readonly approval: StoredApproval
  readonly at: Date
  readonly command: LockedCommand
  readonly origins: Origins | undefined
  readonly write: AnswerAtOnce['write']
}

export async function readSeen(
  { db }: Pick<ApprovalDeps, 'db'>,
  { read, commandOf, write }: AnswerAtOnce,
  /** Who decides; null only reads. */
  userId: string | null,
  { workspaceId, approvalId }: Pick<DecideApproval, 'workspaceId' | 'approvalId'>,
): Promise<Seen | undefined> {
  if (!isUuid(approvalId)) return undefined
  const [row] = await db.run(read, [approvalId, workspaceId, userId])
  if (!row) return undefined
  const { version, asked_at: at, others, origins, owned, ...approval } = row
  return { approval, version, at, others, origins: origins ?? undefined, command: commandOf(owned), write }
}

/** What would run is not what people were asked about. */
export function isStale(
  { domain_effect_id, payload_hash }: StoredApproval,
  command: Pick<LockedCommand, 'hashNow'> | undefined,
): boolean {
  return domain_effect_id === null && command?.hashNow !== undefined && command.hashNow !== payload_hash
}

/** Undefined: nothing was written. */
export async function decideAtOnce(
  deps: Pick<ApprovalDeps, 'newId'>,
  actor: PersonActor,
  input: DecideApproval,
  { approval, version, at, others, origins, command, write }: Seen,
): Promise<Decision<Decided> | undefined> {
  const decided = decideVote(approval, { ...actor.principal, origins }, input, at, others)
  const isChanged = command.payloadHash !== approval.payload_hash || isStale(approval, command)
  if (!decided.ok || approval.domain_effect_id !== null || isChanged) return undefined
  const { value: vote } = decided
  const voted = applyVote(approval, vote, at)
  const next = nextStep(voted, others)
  if (voted.status !== 'approved' || next !== 'run_command') return undefined
  const values = JSON.stringify({
    ...approvalTable.eventRow(approval, actorAs(actor, 'approver'), factOf(deps, { approval, vote, voted, at })),
    version,
    person: vote.person,
    person_for: vote.for ?? vote.person,
    key_id: vote.keyId,
    state: stateOfDecision[vote.decision],
    reason: vote.reason,
    hash: approval.payload_hash,
  })
  const cast = { text: voteExpressions, id: approval.approval_id, values }
  const isWritten = await write({ approval: voted, next, by: actor, at }, command, cast)
  return isWritten ? accept({ approval: voted, next }) : undefined
}

type Voted = {
  readonly approval: StoredApproval
  readonly vote: Vote
  /** The row after the vote. */
  readonly voted: StoredApproval
  readonly at: Date
}

/** The event of a vote. `more` is added to its payload. */
export function factOf(
  { newId }: Pick<ApprovalDeps, 'newId'>,
  { approval, vote, voted, at }: Voted,
  more: Readonly<Record<string, unknown>> = {},
) {
  const payload = {
    decision: vote.decision,
    reason: vote.reason,
    approved_by: voted.approved_by,
    approvals_required: voted.approvals_required,
    by_key_id: vote.keyId,
    ...(vote.tie === undefined ? {} : { tie: vote.tie }),
    ...(vote.for === undefined ? {} : { approved_for: vote.for }),
    from: approval.status,
    to: voted.status,
    ...more,
  }
  const type = voted.status === 'pending' ? ('approval_voted' as const) : ('approval_decided' as const)
  return { type, at, newId, payload }
}
