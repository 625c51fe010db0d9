/** What stands in the memory tables, in the words of the database. */
import type { JsonObject } from '#kernel/json-value'
import type { RowOf, Rows } from '#store/rows'

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
