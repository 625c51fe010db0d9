/** What stands in the memory tables, in the words of the database. */
import type { JsonObject } from '#kernel/json-value'
import type { MemoryCandidateState } from '#kernel/machines/memory-candidate'
import type { MemoryRecordState } from '#kernel/machines/memory-record'
import type { MemoryErasureOutcome, MemoryScope, MemorySensitivity, MemoryType } from '#store/schema/memory'

/** Whom a memory is about. */
export type Subject = { readonly subject_type: string; readonly subject_id: string }

/** What a record and a candidate have in common. */
export type MemoryContent = Subject & {
  readonly scope: MemoryScope
  readonly memory_type: MemoryType
  readonly content: JsonObject
  readonly confidence: number | null
  readonly expires_at: Date | null
  readonly created_by: string
  readonly fact_key: string
  readonly sensitivity: MemorySensitivity
  readonly schema_name: string | null
  readonly task_type: string | null
  readonly connector: string | null
}

export type StoredMemory = MemoryContent & {
  readonly memory_id: string
  readonly workspace_id: string
  readonly status: MemoryRecordState
  readonly superseded_by: string | null
  readonly command_id: string | null
  readonly memory_candidate_id: string | null
  readonly created_at: Date
  readonly updated_at: Date
}

export type StoredCandidate = MemoryContent & {
  readonly memory_candidate_id: string
  readonly workspace_id: string
  readonly command_id: string
  readonly agent_run_id: string | null
  readonly status: MemoryCandidateState
  readonly approval_id: string | null
  readonly memory_id: string | null
  readonly derived_from: readonly string[]
  readonly supersedes: string | null
  readonly created_at: Date
  readonly decided_at: Date | null
  readonly erased_at: Date | null
}

export type StoredConsent = Subject & {
  readonly memory_consent_id: string
  readonly workspace_id: string
  readonly memory_type: MemoryType
  readonly scope: MemoryScope
  readonly granted_by: string
  readonly granted_at: Date
  readonly expires_at: Date | null
  readonly revoked_at: Date | null
  readonly revoked_by: string | null
}

export type StoredHold = Subject & {
  readonly memory_hold_id: string
  readonly workspace_id: string
  readonly reason: string
  readonly placed_by: string
  readonly placed_at: Date
  readonly released_at: Date | null
  readonly released_by: string | null
}

export type StoredErasure = {
  readonly memory_erasure_id: string
  readonly workspace_id: string
  readonly command_id: string
  readonly subject_type: string
  readonly subject_id: string | null
  readonly subject_digest: string
  readonly requested_by: string
  readonly requested_at: Date
  readonly outcome: MemoryErasureOutcome | null
  readonly closed_at: Date | null
  readonly certificate: JsonObject | null
  readonly certificate_hash: string | null
}

/** Numeric comes from the driver as text; a confidence of two digits is exact in a double. */
export const recordColumns = `memory_id, workspace_id, subject_type, subject_id, scope, memory_type, content, confidence::float8 as confidence,
  status, superseded_by, expires_at, command_id, memory_candidate_id, created_by, created_at, updated_at, fact_key, sensitivity,
  schema_name, task_type, connector`

export const candidateColumns = `memory_candidate_id, workspace_id, command_id, agent_run_id, subject_type, subject_id, scope, memory_type,
  content, confidence::float8 as confidence, expires_at, created_by, sensitivity, status, approval_id, memory_id, created_at, decided_at,
  fact_key, schema_name, task_type, connector, derived_from, supersedes, erased_at`
