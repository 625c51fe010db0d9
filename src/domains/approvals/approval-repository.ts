/** Reads and writes of `concord.approvals`; every look-up is by id and workspace, and a status changes here or in a vote only. */
import type { By } from '#domains/identity'
import type { NewId } from '#kernel/clock'
import { KernelFault } from '#kernel/errors'
import { approvalMachine } from '#kernel/machines/approval'
import { defineLookup, rowType, type Sql, storedMachine, transition, type TransitionResult, type Tx } from '#store'
import { approvalLog, payloadOf } from './events.ts'
import { castVote } from './sql/cast-vote.ts'
import { databaseTime } from './sql/database-time.ts'
import { lockQuestions as lockQuestionsSql } from './sql/lock-questions.ts'
import type { Vote } from './decide-vote.ts'
import { stateOfDecision, type StoredApproval } from './stored-approval.ts'

const approvalRow = rowType<StoredApproval>()

export const approvalLookup = defineLookup({
  noun: 'approval',
  table: 'concord.approvals',
  id: 'approval_id',
  tenant: 'workspace_id',
  row: approvalRow,
})

/** For the two ways an approval ends without an answer; an answer is a vote and has a statement of its own. */
export const storedApproval = storedMachine({
  machine: approvalMachine,
  table: 'concord.approvals',
  id: 'approval_id',
  tenant: 'workspace_id',
  state: 'status',
  guards: { overdue: 't.expires_at <= statement_timestamp()' },
  settable: { decision_reason: 'text' },
  log: { log: approvalLog, target: 'approval', links: { workspace_id: 'workspace_id', command_id: 'command_id' } },
  row: approvalRow,
})

export async function findApproval(
  sql: Sql,
  workspaceId: string,
  approvalId: string,
): Promise<StoredApproval | undefined> {
  const [row] = await sql.run(approvalLookup.statement, [approvalId, workspaceId])
  return row
}

/** For a turn, which knows nothing but the id. */
export async function findApprovalOfTurn(sql: Sql, approvalId: string): Promise<StoredApproval | undefined> {
  const [row] = await sql.query<StoredApproval>('select * from concord.approvals where approval_id = $1', [approvalId])
  return row
}

export async function findDatabaseTime(sql: Sql): Promise<Date> {
  const [row] = await sql.run(databaseTime)
  if (!row) throw new KernelFault('store.row.missing', 'the database did not say what time it is')
  return row.at
}

export type Subject = Pick<StoredApproval, 'workspace_id' | 'command_id' | 'domain_effect_id'>
export type Locked = { readonly at: Date; readonly approvals: readonly StoredApproval[] }

/** All approvals that still count about this subject, locked until the transaction ends. */
export async function lockQuestions(tx: Tx, subject: Subject): Promise<Locked> {
  const rows = await tx.run(lockQuestionsSql, [subject.workspace_id, subject.command_id, subject.domain_effect_id])
  return { at: rows[0]?.asked_at ?? (await findDatabaseTime(tx)), approvals: rows }
}

/** Nothing comes back when the approval is closed, late, changed, or when this person has voted before. */
export async function saveVote(tx: Tx, approval: StoredApproval, vote: Vote): Promise<StoredApproval | undefined> {
  const { approval_id, workspace_id, payload_hash } = approval
  const [row] = await tx.run(castVote, [
    approval_id,
    workspace_id,
    vote.person,
    stateOfDecision[vote.decision],
    vote.reason,
    payload_hash,
  ])
  return row
}

export type Ending = { readonly by: By; readonly at: Date; readonly newId: NewId; readonly why: string }

/** Only if its time is over by the database's clock. */
export function saveExpired(
  tx: Tx,
  approval: StoredApproval,
  { by, at, newId, why }: Ending,
): Promise<TransitionResult<StoredApproval>> {
  return transition(tx, storedApproval, approval, 'expired', {
    ...by,
    actorKind: 'system',
    at,
    newId,
    guards: ['overdue'],
    payload: payloadOf(approval, { reason: why, expired_at: approval.expires_at?.toISOString() ?? null }),
  })
}

export function saveCancelled(
  tx: Tx,
  approval: StoredApproval,
  { by, at, newId, why, actorKind }: Ending & { readonly actorKind: 'user' | 'operator' | 'system' },
): Promise<TransitionResult<StoredApproval>> {
  return transition(tx, storedApproval, approval, 'cancelled', {
    ...by,
    actorKind,
    at,
    newId,
    set: { decision_reason: why },
    payload: payloadOf(approval, { reason: why }),
  })
}
