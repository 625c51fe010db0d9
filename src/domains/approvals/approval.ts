/** An approval: its table, and the statements that lock, vote and close it. */
import type { Actor, ConcordActor } from '#kernel/actor'
import type { NewId } from '#kernel/clock'
import { KernelFault } from '#kernel/errors'
import { approvalMachine } from '#kernel/machines/approval'
import { defineTable, type Sql, statement, type TransitionResult, type Tx } from '#store'
import type { Vote } from './decide-vote.ts'
import { approvalLog } from './events.ts'
import { stateOfDecision, type StoredApproval } from './stored-approval.ts'

/** The same actor, with the actor kind that the approval machine uses. */
export function actorAs<Kind extends ConcordActor>({ id, traceId }: Actor, kind: Kind): Actor<Kind> {
  return { id, kind, traceId }
}

/** The values of a vote, as SQL. */
type VoteSql = Readonly<
  Record<'approval' | 'workspace' | 'person' | 'personFor' | 'key' | 'state' | 'reason' | 'hash' | 'at', string>
>

/** The persons who wrote a part of the content of `t`, and whose approval does not count. An older row has one of them at most. */
const authorsOf = `coalesce(t.request_payload->'authors', jsonb_build_array(t.request_payload->'edits'->'author'))`

/** The persons who have approved, or in whose place somebody has approved, another open or approved approval of the command of `t`. An approval about an effect is independent. */
export const countedElsewhere = `array(
       select unnest(o.approved_by || o.approved_for) from concord.approvals o
        where o.command_id = t.command_id and o.approval_id <> t.approval_id and o.superseded_by is null
          and o.domain_effect_id is null and t.domain_effect_id is null and o.status in ('pending', 'approved'))`

/**
 * One statement decides one vote: in time, still open, for the content that was shown, not by the requester unless allowed,
 * and each person once per command. Each of several concurrent voters sees the votes before its own, so exactly one of them completes the
 * quorum. Finds the approval by its id alone: `is true` keeps the workspace and the state from any index.
 */
function voteText(
  { approval, workspace, person, personFor, key, state, reason, hash, at }: VoteSql,
  from = '',
): string {
  const isFinal = `(${state} <> 'approved' or cardinality(t.approved_by) + 1 >= t.approvals_required)`
  return `update concord.approvals t set
     approved_by = case when ${state} = 'approved' then t.approved_by || ${person} else t.approved_by end,
     approved_for = case when ${state} = 'approved'
       then t.approved_for || t.approved_by[cardinality(t.approved_for) + 1:] || ${personFor} else t.approved_for end,
     vote_key_id = ${key},
     status = case when ${isFinal} then ${state} else t.status end,
     decided_at = case when ${isFinal} then ${at} end,
     decided_by = case when ${isFinal} then ${person} end,
     decision_reason = case when ${isFinal} then ${reason} end
   ${from}
   where t.approval_id = ${approval} and (t.workspace_id = ${workspace}) is true and (t.status = 'pending') is true
     and (t.expires_at is null or t.expires_at > statement_timestamp())
     and t.payload_hash = ${hash}
     and (${state} <> 'approved' or not array[${person}, ${personFor}] && (t.approved_by || t.approved_for || ${countedElsewhere}))
     and (${state} <> 'approved' or not ${authorsOf} ? ${person})
     and (t.self_decision_allowed or t.requested_by <> ${person})`
}

/** $1 approval, $2 workspace, $3 person, $4 the state to reach, $5 reason, $6 hash of what was decided about, $7 key, $8 in whose place. */
const castVote = statement<StoredApproval>(
  'approvals.cast_vote',
  `${voteText({
    approval: '$1::uuid',
    workspace: '$2::uuid',
    person: '$3::text',
    personFor: '$8::text',
    key: '$7::uuid',
    state: '$4::text',
    reason: '$5::text',
    hash: '$6::text',
    at: 'statement_timestamp()',
  })}
   returning t.*`,
)

/**
 * The vote and its event as common table expressions of a larger statement: they write if `given` is true and the row is as it was read. `told` has
 * a row if they did. `values` holds the JSON of all their values but the id of the approval: from a JSON value the planner read every open
 * approval.
 */
export const voteExpressions = (id: string, values: string, given: string): string => `v as materialized (
  select * from json_to_record(${values}::json) as v(version text, person text, person_for text, key_id uuid, state text, reason text, hash text,
    entry_id uuid, workspace_id uuid, command_id uuid, trace_id text, created_at timestamptz, audit_type text, events json)
), voted as (
  ${voteText(
    {
      approval: `${id}::uuid`,
      workspace: 'v.workspace_id',
      person: 'v.person',
      personFor: 'v.person_for',
      key: 'v.key_id',
      state: 'v.state',
      reason: 'v.reason',
      hash: 'v.hash',
      at: 'v.created_at',
    },
    'from v',
  )}
     and t.xmin::text = v.version and ${given}
   returning t.approval_id
), told as (
  ${approvalTable.appendText('v', 'v, voted')}
)`

/** The database's clock decides deadlines, since the clocks of processes differ. */
const databaseTime = statement<{ readonly at: Date }>('approvals.database_time', 'select statement_timestamp() as at')

/**
 * Locks every approval of one subject (a command, or one effect of it) that is not superseded, always in the same order. Two
 * answers to two approvals of one command therefore see each other, and the last one knows that it is the last.  $1 workspace, $2
 * command, $3 effect or null.
 */
const lockQuestionsSql = statement<StoredApproval & { readonly asked_at: Date }>(
  'approvals.lock_questions',
  `select t.*, statement_timestamp() as asked_at
     from concord.approvals t
    where t.command_id = $2::uuid and (t.workspace_id = $1::uuid) is true and t.domain_effect_id is not distinct from $3::uuid
      and t.superseded_by is null
    order by t.approval_id
      for no key update`,
)

/** `transition` is for the two ways in which an approval ends without an answer; a vote has its own statement. */
export const approvalTable = defineTable<StoredApproval>()({
  name: 'concord.approvals',
  noun: 'approval',
  id: 'approval_id',
  tenant: 'workspace_id',
  machine: approvalMachine,
  state: 'status',
  guards: { overdue: 't.expires_at <= statement_timestamp()' },
  settable: { decision_reason: 'text' },
  log: approvalLog,
  links: ['workspace_id', 'command_id'],
  // Without the arguments: only the row holds them.
  about: ({ approval_id, approval_type, payload_hash }) => ({ approval_id, approval_type, payload_hash }),
})

/** For a turn, which knows only the id. */
export async function findApprovalOfTurn(sql: Sql, approvalId: string): Promise<StoredApproval | undefined> {
  const [row] = await sql.query<StoredApproval>('select * from concord.approvals where approval_id = $1', [approvalId])
  return row
}

export async function findDatabaseTime(sql: Sql): Promise<Date> {
  const [row] = await sql.run(databaseTime)
  if (!row) throw new KernelFault('store.row.missing', 'The database returned no time.')
  return row.at
}

type Subject = Pick<StoredApproval, 'workspace_id' | 'command_id' | 'domain_effect_id'>
export type Locked = { readonly at: Date; readonly approvals: readonly StoredApproval[] }

/** Locks them until the transaction ends. */
export async function lockQuestions(tx: Tx, subject: Subject): Promise<Locked> {
  const rows = await tx.run(lockQuestionsSql, [subject.workspace_id, subject.command_id, subject.domain_effect_id])
  return { at: rows[0]?.asked_at ?? (await findDatabaseTime(tx)), approvals: rows }
}

/** Returns undefined when the approval is closed, late or changed, or when this person has already voted. */
export async function saveVote(tx: Tx, approval: StoredApproval, vote: Vote): Promise<StoredApproval | undefined> {
  const { approval_id, workspace_id, payload_hash } = approval
  const [row] = await tx.run(castVote, [
    approval_id,
    workspace_id,
    vote.person,
    stateOfDecision[vote.decision],
    vote.reason,
    payload_hash,
    vote.keyId,
    vote.for ?? vote.person,
  ])
  return row
}

export function saveCancelled(
  tx: Tx,
  actor: Actor<'user' | 'operator' | 'system'>,
  approval: StoredApproval,
  { at, newId, why }: { readonly at: Date; readonly newId: NewId; readonly why: string },
): Promise<TransitionResult<StoredApproval>> {
  const set = { decision_reason: why }
  return approvalTable.transition(tx, approval, 'cancelled', actor, { at, newId, set, payload: { reason: why } })
}

type CancelApprovals = {
  readonly workspaceId: string
  readonly commandId: string
  /** One word: `command_cancelled`, `payload_changed`. */
  readonly why: string
  readonly actorKind?: 'user' | 'operator' | 'system'
  /**
   * Closes the approval about this effect instead of those about the command: a cancelled command leaves the outcome of an effect
   * open.
   */
  readonly domainEffectId?: string
}

/** Returns the closed approvals; none if all were already answered. */
export async function cancelApprovals(
  tx: Tx,
  newId: NewId,
  by: Actor,
  input: CancelApprovals,
): Promise<readonly StoredApproval[]> {
  const { workspaceId, commandId, why, actorKind = 'system', domainEffectId = null } = input
  const { at, approvals } = await lockQuestions(tx, {
    workspace_id: workspaceId,
    command_id: commandId,
    domain_effect_id: domainEffectId,
  })
  const closed: StoredApproval[] = []
  for (const approval of approvals.filter(({ status }) => status === 'pending')) {
    const moved = await saveCancelled(tx, actorAs(by, actorKind), approval, { at, newId, why })
    if (moved.ok) closed.push(moved.row)
  }
  return closed
}
