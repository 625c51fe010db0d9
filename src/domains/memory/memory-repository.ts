/** Reads and moves of records and candidates; every look-up is by id and workspace, every status changes through its machine. */
import type { NewId } from '#kernel/clock'
import { memoryCandidateMachine, type MemoryCandidateState } from '#kernel/machines/memory-candidate'
import { memoryRecordMachine, type MemoryRecordState } from '#kernel/machines/memory-record'
import { defineTable, type Sql, statement, type TransitionResult, type Tx } from '#store'
import { type Act, memoryLog } from './events.ts'
import {
  candidateColumns,
  type MemoryContent,
  recordColumns,
  type StoredCandidate,
  type StoredMemory,
} from './memory-row.ts'
import type { FactPlace } from './memory-store.ts'

const records = defineTable<StoredMemory>()({
  name: 'concord.memory_records',
  noun: 'memory',
  machine: memoryRecordMachine,
  id: 'memory_id',
  tenant: 'workspace_id',
  state: 'status',
  touched: 'updated_at',
  settable: { superseded_by: 'uuid', content: 'jsonb', fact_key: 'text', subject_id: 'text' },
  log: memoryLog,
  links: ['workspace_id', 'command_id'],
})

const candidates = defineTable<StoredCandidate>()({
  name: 'concord.memory_candidates',
  noun: 'memory_candidate',
  machine: memoryCandidateMachine,
  id: 'memory_candidate_id',
  tenant: 'workspace_id',
  state: 'status',
  settable: {
    approval_id: 'uuid',
    memory_id: 'uuid',
    supersedes: 'uuid',
    content: 'jsonb',
    fact_key: 'text',
    subject_id: 'text',
    erased_at: 'timestamptz',
  },
  log: memoryLog,
  links: ['workspace_id', 'command_id', 'agent_run_id'],
})

type Moving = { readonly act: Act; readonly newId: NewId; readonly set?: object; readonly payload?: object }

export async function saveRecord(
  tx: Tx,
  record: StoredMemory,
  to: MemoryRecordState,
  { act, newId, set = {}, payload = {} }: Moving,
): Promise<TransitionResult<StoredMemory>> {
  const kind = act.actorKind === 'user' || act.actorKind === 'operator' ? act.actorKind : 'system'
  const actor = { id: act.actor, kind: to === 'expired' ? 'system' : kind, traceId: act.traceId } as const
  const moving = { at: act.at, newId, set: { ...set }, payload: { ...payload } }
  const moved = await records.transition(tx, record, to, actor, moving)
  return moved.ok ? { ok: true, row: exact(moved.row) } : moved
}

/** A candidate is moved by Concord itself: by policy, by the effect, or by the end of its command. */
export async function saveCandidate(
  tx: Tx,
  candidate: StoredCandidate,
  to: MemoryCandidateState,
  { act, newId, set = {}, payload = {} }: Moving,
): Promise<TransitionResult<StoredCandidate>> {
  const actor = { id: act.actor, kind: 'system', traceId: act.traceId } as const
  const moving = { at: act.at, newId, set: { ...set }, payload: { ...payload } }
  const moved = await candidates.transition(tx, candidate, to, actor, moving)
  return moved.ok ? { ok: true, row: exact(moved.row) } : moved
}

/** The driver gives numeric as text. */
function exact<Row extends Pick<MemoryContent, 'confidence'>>(row: Row): Row {
  const given: unknown = row.confidence
  return { ...row, confidence: given === null ? null : Number(given) }
}

const findRecordSql = statement<StoredMemory>(
  'memory_find_record',
  `select ${recordColumns} from concord.memory_records where memory_id = $1 and workspace_id = $2`,
)

export async function findRecord(sql: Sql, workspaceId: string, memoryId: string): Promise<StoredMemory | undefined> {
  const [row] = await sql.run(findRecordSql, [memoryId, workspaceId])
  return row
}

const findCandidateSql = statement<StoredCandidate>(
  'memory_find_candidate',
  `select ${candidateColumns} from concord.memory_candidates where memory_candidate_id = $1 and workspace_id = $2`,
)

export async function findCandidate(
  sql: Sql,
  workspaceId: string,
  candidateId: string,
): Promise<StoredCandidate | undefined> {
  const [row] = await sql.run(findCandidateSql, [candidateId, workspaceId])
  return row
}

const lockCandidateSql = statement<StoredCandidate>(
  'memory_lock_candidate',
  `select ${candidateColumns} from concord.memory_candidates where memory_candidate_id = $1 and workspace_id = $2 for update`,
)

export async function lockCandidate(
  tx: Tx,
  workspaceId: string,
  candidateId: string,
): Promise<StoredCandidate | undefined> {
  const [row] = await tx.run(lockCandidateSql, [candidateId, workspaceId])
  return row
}

const findRivalSql = statement<StoredMemory>(
  'memory_find_rival',
  `select ${recordColumns} from concord.memory_records
where workspace_id = $1 and scope = $2 and subject_type = $3 and subject_id = $4 and fact_key = $5 and status = 'active'`,
)

/** The active record of the same key, if there is one: there is never a second. */
export async function findRival(sql: Sql, of: FactPlace): Promise<StoredMemory | undefined> {
  const [row] = await sql.run(findRivalSql, [of.workspace_id, of.scope, of.subject_type, of.subject_id, of.fact_key])
  return row
}
