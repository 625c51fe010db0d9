/** What a memory store outside this database knows of a subject: the records that the lineage names, deleted one by one. */
import { accept } from '#kernel/refusal'
import type { Forgettable, Lineage } from './forgettable.ts'
import type { MemoryStore } from './memory-store.ts'

const KIND = 'stored_memory'

/** Such a store has no part in the transaction: an erasure that fails later has deleted already, and is repeated until it is done. */
export function forgetStored(store: MemoryStore): Forgettable {
  const held = async ({ workspaceId, memoryIds }: Lineage) => {
    const records = await Promise.all(memoryIds.map((memoryId) => store.get({ workspaceId, memoryId })))
    return records.flatMap((record) => (record && record.status !== 'deleted' ? [record.memory_id] : []))
  }
  return {
    kind: KIND,
    list: async (_sql, lineage) => (await held(lineage)).map((id) => ({ kind: KIND, id })),
    async erase(_tx, lineage, act) {
      const ids = await held(lineage)
      for (const memoryId of ids) {
        const gone = await store.delete({ workspaceId: lineage.workspaceId, memoryId }, act)
        if (!gone.ok) return gone
      }
      return accept(ids.map((id) => ({ kind: KIND, id })))
    },
  }
}
