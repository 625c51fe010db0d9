/** Reads and moves of records and candidates; every look-up is by id and workspace, every status changes through its machine. */
import type { NewId } from '#kernel/clock'
import type { JsonObject } from '#kernel/json-value'
import {
  memoryCandidateMachine,
  type MemoryCandidateState,
  memoryRecordMachine,
  type MemoryRecordState,
} from '#kernel/machines/memory'
import { defineTable, type Sql, statement, type TransitionResult, type Tx } from '#store'
import type { RowOf, Rows } from '#store/rows'
import { type Act, memoryLog } from './events.ts'
import type { FactPlace } from './memory-store.ts'

/** Whom a memory is about. */
export type Subject = { readonly subject_type: string; readonly subject_id: string }

export const memoryScopes = [
  'user',
  'team',
  'project',
  'workspace',
  'tenant',
  'agent_role',
  'workflow_type',
  'global',
] as const
export type MemoryScope = (typeof memoryScopes)[number]

export const memoryTypes = [
  'preference',
  'workflow_preference',
  'business_rule',
  'safety_rule',
  'connector_hint',
  'approval_routing',
  'fact',
] as const
export type MemoryType = (typeof memoryTypes)[number]

/** From the freest to the strictest that may be remembered; a secret may not. */
export const memorySensitivities = ['public', 'internal', 'confidential', 'pii', 'payment'] as const
export type MemorySensitivity = (typeof memorySensitivities)[number]

const memoryQueryKinds = ['id', 'subject', 'task_type', 'connector', 'semantic'] as const
export type MemoryQueryKind = (typeof memoryQueryKinds)[number]

export const memoryErasureOutcomes = ['erased', 'dropped'] as const

/** `numeric` comes from the driver as text; a confidence of two digits is exact in a double. */
type Read<Table extends 'concord.memory_records' | 'concord.memory_candidates'> = Omit<
  Rows[Table],
  'content' | 'confidence'
> & { readonly content: JsonObject; readonly confidence: number | null }

export type StoredMemory = Read<'concord.memory_records'>
export type StoredCandidate = Read<'concord.memory_candidates'>
/** What a record and a candidate have in common. */
export type MemoryContent = Pick<
  StoredMemory,
  | keyof Subject
  | 'scope'
  | 'memory_type'
  | 'content'
  | 'confidence'
  | 'expires_at'
  | 'created_by'
  | 'fact_key'
  | 'sensitivity'
  | 'schema_name'
  | 'task_type'
  | 'connector'
>
export type StoredConsent = Rows['concord.memory_consents']
export type StoredHold = Rows['concord.memory_holds']
export type StoredErasure = RowOf<'concord.memory_erasures', { readonly certificate: JsonObject | null }>

export const recordColumns = `memory_id, workspace_id, subject_type, subject_id, scope, memory_type, content, confidence::float8 as confidence,
  status, superseded_by, expires_at, command_id, memory_candidate_id, created_by, created_at, updated_at, fact_key, sensitivity,
  schema_name, task_type, connector`

export const candidateColumns = `memory_candidate_id, workspace_id, command_id, agent_run_id, subject_type, subject_id, scope, memory_type,
  content, confidence::float8 as confidence, expires_at, created_by, sensitivity, status, approval_id, memory_id, created_at, decided_at,
  fact_key, schema_name, task_type, connector, derived_from, supersedes, erased_at`

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
