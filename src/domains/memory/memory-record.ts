/** A memory record: its closed lists, its row, its table and its statements. Every look-up is by id and workspace. */
import type { Actor } from '#kernel/actor'
import type { NewId } from '#kernel/clock'
import type { JsonObject } from '#kernel/json-value'
import { memoryRecordMachine, type MemoryRecordState } from '#kernel/machines/memory'
import { defineTable, type Sql, statement, type TransitionResult, type Tx } from '#store'
import type { RowOf, Rows } from '#store/rows'
import { memoryLog } from './events.ts'

/** The subject of a memory: a person, a customer, a team. */
export type Subject = Pick<StoredMemory, 'subject_type' | 'subject_id'>

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

/** The data classes that may be stored, from the least to the most restricted; a secret may not. */
export const memorySensitivities = ['public', 'internal', 'confidential', 'pii', 'payment'] as const
export type MemorySensitivity = (typeof memorySensitivities)[number]

/** The driver returns `numeric` as text; a confidence with two digits is exact in a double. */
type Exact<Table extends 'concord.memory_records' | 'concord.memory_candidates'> = Omit<
  Rows[Table],
  'content' | 'confidence' | 'labels'
> & {
  readonly content: JsonObject
  readonly confidence: number | null
  /** Passed on by the database; absent where the record is in another store. */
  readonly labels?: readonly string[]
}

export type StoredMemory = Exact<'concord.memory_records'>
export type StoredCandidate = Exact<'concord.memory_candidates'>
export type StoredConsent = Rows['concord.memory_consents']
export type StoredHold = Rows['concord.memory_holds']
export type StoredErasure = RowOf<'concord.memory_erasures', { readonly certificate: JsonObject | null }>

/** Identifies a fact: at most one active record has it. */
export type FactPlace = Pick<StoredMemory, 'workspace_id' | 'scope' | 'subject_type' | 'subject_id' | 'fact_key'>

export const recordColumns = `memory_id, workspace_id, subject_type, subject_id, scope, memory_type, content, confidence::float8 as confidence,
  status, superseded_by, expires_at, command_id, memory_candidate_id, created_by, created_at, updated_at, fact_key, sensitivity,
  schema_name, task_type, connector, labels`

export const records = defineTable<StoredMemory>()({
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

/** A move of a row: its time, the columns that it sets, and the payload of its event. */
export type Moving = {
  readonly at: Date
  readonly newId: NewId
  readonly set?: Readonly<Record<string, unknown>>
  readonly payload?: Readonly<Record<string, unknown>>
}

/** Workers and approvers do not move records: Concord does it for them, as `system`. */
export async function saveRecord(
  tx: Tx,
  record: StoredMemory,
  to: MemoryRecordState,
  { id, kind, traceId }: Actor,
  { at, newId, set = {}, payload = {} }: Moving,
): Promise<TransitionResult<StoredMemory>> {
  const isPerson = (kind === 'user' || kind === 'operator') && to !== 'expired'
  const actor = { id, kind: isPerson ? kind : 'system', traceId } as const
  return exact(await records.transition(tx, record, to, actor, { at, newId, set, payload }))
}

/** Turns the confidence of a moved row, which the driver returns as text, into a number. */
export function exact<Row extends Pick<StoredMemory, 'confidence'>>(
  moved: TransitionResult<Row>,
): TransitionResult<Row> {
  if (!moved.ok) return moved
  const { confidence } = moved.row
  return { ...moved, row: { ...moved.row, confidence: confidence === null ? null : confidence } }
}

const findRecordSql = statement<StoredMemory>(
  'memory_find_record',
  `select ${recordColumns} from concord.memory_records where memory_id = $1 and workspace_id = $2`,
)

export async function findRecord(sql: Sql, workspaceId: string, memoryId: string): Promise<StoredMemory | undefined> {
  const [row] = await sql.run(findRecordSql, [memoryId, workspaceId])
  return row
}

const findRivalSql = statement<StoredMemory>(
  'memory_find_rival',
  `select ${recordColumns} from concord.memory_records
where workspace_id = $1 and scope = $2 and subject_type = $3 and subject_id = $4 and fact_key = $5 and status = 'active'`,
)

/** Returns the active record of the same fact; there is at most one. */
export async function findRival(sql: Sql, of: FactPlace): Promise<StoredMemory | undefined> {
  const [row] = await sql.run(findRivalSql, [of.workspace_id, of.scope, of.subject_type, of.subject_id, of.fact_key])
  return row
}
