/** Inserts a record unless the place of its fact, its id or its candidate is taken; waits for a writer who is just taking it. */
import { statement } from '#store'
import { recordColumns, type StoredMemory } from '../memory-row.ts'
import type { NewMemory } from '../memory-store.ts'

export const insertRecord = statement<StoredMemory>(
  'memory_insert_record',
  `insert into concord.memory_records (memory_id, workspace_id, subject_type, subject_id, scope, memory_type, content, confidence, status,
  expires_at, command_id, memory_candidate_id, created_by, created_at, updated_at, fact_key, sensitivity, schema_name, task_type, connector)
values ($1, $2, $3, $4, $5, $6, $7, $8, 'active', $9, $10, $11, $12, $13, $13, $14, $15, $16, $17, $18)
on conflict do nothing
returning ${recordColumns}`,
)

export function insertValues(memory: NewMemory, at: Date): readonly unknown[] {
  return [
    memory.memory_id,
    memory.workspace_id,
    memory.subject_type,
    memory.subject_id,
    memory.scope,
    memory.memory_type,
    memory.content,
    memory.confidence,
    memory.expires_at,
    memory.command_id,
    memory.memory_candidate_id,
    memory.created_by,
    at,
    memory.fact_key,
    memory.sensitivity,
    memory.schema_name,
    memory.task_type,
    memory.connector,
  ]
}
