/** Memories in one process: the smallest store that fulfils the port, for tests of its callers. */
import { decideMove } from '#kernel/machine'
import { memoryRecordMachine, type MemoryRecordState } from '#kernel/machines/memory'
import { accept, type Decision } from '#kernel/refusal'
import { isSameContent } from '../../src/domains/memory/memory-content.ts'
import type { FactPlace, StoredMemory } from '../../src/domains/memory/memory-record.ts'
import {
  type Embedding,
  type FoundMemory,
  type MemoryQuery,
  type MemoryRef,
  type MemoryStore,
  type SearchScope,
  textOf,
} from '../../src/domains/memory/memory-store.ts'
import { refuseAbsent, refuseConflict } from '../../src/domains/memory/postgres-store.ts'

type Kept = { record: StoredMemory; embedding: Embedding | undefined; readonly sources: readonly string[] }

export function openProcessStore(): MemoryStore {
  const kept = new Map<string, Kept>()
  const find = ({ workspaceId, memoryId }: MemoryRef) => {
    const found = kept.get(memoryId)
    return found?.record.workspace_id === workspaceId ? found : undefined
  }
  const move = (
    from: Kept,
    to: MemoryRecordState,
    at: Date,
    set: Partial<StoredMemory> = {},
  ): Decision<StoredMemory> => {
    const decision = decideMove(memoryRecordMachine, from.record.status, to, to === 'expired' ? 'system' : 'operator')
    if (!decision.ok) return decision
    from.record = { ...from.record, ...set, status: to, updated_at: at }
    return accept(from.record)
  }
  const rivalOf = (memory: FactPlace) => [...kept.values()].find(({ record }) => isRival(record, memory))
  return {
    name: 'process',
    async insert(given, _actor, at) {
      const { embedding, supersedes, derived_from: sources, ...memory } = given
      const own = kept.get(memory.memory_id)?.record
      if (own) return isSameContent(own.content, memory.content) ? accept(own) : refuseConflict(own.memory_id)
      const rival = rivalOf(given)
      if (rival?.record.expires_at && rival.record.expires_at <= at) move(rival, 'expired', at)
      else if (rival && rival.record.memory_id !== supersedes) return refuseConflict(rival.record.memory_id)
      else if (rival) move(rival, 'superseded', at, { superseded_by: memory.memory_id })
      const record: StoredMemory = {
        ...memory,
        status: 'active',
        superseded_by: null,
        created_at: at,
        updated_at: at,
      }
      kept.set(memory.memory_id, { record, embedding, sources })
      return accept(record)
    },
    get: async (ref) => find(ref)?.record,
    findFact: async (place) => rivalOf(place)?.record,
    async search(scope, query, limit) {
      return [...kept.values()]
        .filter(({ record }) => isVisible(record, scope))
        .flatMap((each): FoundMemory[] => {
          const score = scoreOf(each, query)
          return score === undefined ? [] : [{ ...each.record, score }]
        })
        .toSorted(
          (one, other) =>
            (other.score ?? 0) - (one.score ?? 0) ||
            other.created_at.getTime() - one.created_at.getTime() ||
            (one.memory_id < other.memory_id ? -1 : 1),
        )
        .slice(0, limit)
    },
    async supersede(old, newId, _actor, at) {
      const [record, heir] = [find(old), find({ ...old, memoryId: newId })]
      return record && heir ? move(record, 'superseded', at, { superseded_by: newId }) : refuseAbsent()
    },
    async delete(ref, _actor, at) {
      const found = find(ref)
      if (!found) return refuseAbsent()
      found.embedding = undefined
      return move(found, 'deleted', at, { content: {}, fact_key: `erased:${ref.memoryId}` })
    },
  }
}

function isRival(record: StoredMemory, memory: FactPlace): boolean {
  const parts = ['workspace_id', 'scope', 'subject_type', 'subject_id', 'fact_key'] as const
  return record.status === 'active' && parts.every((part) => record[part] === memory[part])
}

function isVisible(record: StoredMemory, scope: SearchScope): boolean {
  const { subject, memoryTypes, schemaNames, viewer } = scope
  const isOf = (wanted: string | undefined, value: string | null) => wanted === undefined || wanted === value
  return (
    record.workspace_id === scope.workspaceId &&
    record.status === 'active' &&
    (record.expires_at === null || record.expires_at > scope.at) &&
    isOf(subject?.subject_type, record.subject_type) &&
    isOf(subject?.subject_id, record.subject_id) &&
    (memoryTypes === undefined || memoryTypes.includes(record.memory_type)) &&
    (schemaNames === undefined || record.schema_name === null || schemaNames.includes(record.schema_name)) &&
    isOf(scope.taskType, record.task_type) &&
    isOf(scope.connector, record.connector) &&
    (record.scope !== 'user' || record.subject_type !== 'user' || isOf(viewer, record.subject_id))
  )
}

/** Undefined when it does not match the query. */
function scoreOf({ record, embedding }: Kept, query: MemoryQuery | null): number | null | undefined {
  if (!query) return null
  if (query.embedding) {
    return embedding?.model === query.embedding.model ? likeness(embedding.vector, query.embedding.vector) : undefined
  }
  const words = wordsOf(textOf(record.content))
  const asked = wordsOf(query.text)
  if (asked.length === 0 || !asked.every((word) => words.includes(word))) return undefined
  return words.filter((word) => asked.includes(word)).length / words.length
}

function wordsOf(text: string): string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
}

function likeness(one: readonly number[], other: readonly number[]): number {
  const dot = one.reduce((sum, value, at) => sum + value * (other[at] ?? 0), 0)
  return dot / (Math.hypot(...one) * Math.hypot(...other) || 1)
}
