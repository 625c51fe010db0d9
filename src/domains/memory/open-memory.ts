/** Opens the room with its defaults: the store in Concord's own database, no embedder, no schemas. */
import { accept, type Decision } from '#kernel/refusal'
import type { Forgettable, MemoryDeps, SubjectLineage } from './deps.ts'
import { forgetMemories } from './forget-memories.ts'
import { openMemorySchemas } from './memory-schema.ts'
import type { MemoryStore } from './memory-store.ts'
import { detectVectorSupport, openPostgresStore } from './postgres-store.ts'

export type MemoryOptions = Pick<MemoryDeps, 'db' | 'now' | 'newId'> &
  Partial<Pick<MemoryDeps, 'store' | 'embedder' | 'forgettables'>> & { readonly schemas?: readonly unknown[] }

export async function openMemory(options: MemoryOptions): Promise<Decision<MemoryDeps>> {
  const { db, now, newId, embedder = null } = options
  const schemas = openMemorySchemas(options.schemas ?? [])
  if (!schemas.ok) return schemas
  const store = options.store ?? openPostgresStore({ db, newId, vectors: await detectVectorSupport(db) })
  const outside = store.within ? [] : [forgetStored(store)]
  const forgettables = [forgetMemories(newId), ...outside, ...(options.forgettables ?? [])]
  return accept({ db, now, newId, embedder, store, schemas: schemas.value, forgettables })
}

const STORED = 'stored_memory'

/**
 * A memory store outside this database: the records of the lineage, deleted one by one. The store is not part of the transaction: an
 * erasure that fails later has already deleted them, and is repeated until it succeeds.
 */
function forgetStored(store: MemoryStore): Forgettable {
  const listIds = async ({ workspaceId, memoryIds }: SubjectLineage) => {
    const records = await Promise.all(memoryIds.map((memoryId) => store.get({ workspaceId, memoryId })))
    return records.flatMap((record) => (record && record.status !== 'deleted' ? [record.memory_id] : []))
  }
  return {
    kind: STORED,
    list: async (_sql, lineage) => (await listIds(lineage)).map((id) => ({ kind: STORED, id })),
    async erase(_tx, lineage, { actor, at }) {
      const ids = await listIds(lineage)
      for (const memoryId of ids) {
        const gone = await store.delete({ workspaceId: lineage.workspaceId, memoryId }, actor, at)
        if (!gone.ok) return gone
      }
      return accept(ids.map((id) => ({ kind: STORED, id })))
    },
  }
}
