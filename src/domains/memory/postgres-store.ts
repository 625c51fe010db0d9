/** Memories in Concord's own database: the default store. The unique index on the fact decides between writers (M1). */
import type { NewId } from '#kernel/clock'
import { accept, type Decision } from '#kernel/refusal'
import { type Db, type Sql, statement, type Tx } from '#store'
import type { Act } from './events.ts'
import { isSameContent } from './fact-key.ts'
import { findRecord, findRival, saveRecord } from './memory-repository.ts'
import type { StoredMemory } from './memory-row.ts'
import type { MemoryRef, MemoryStore, NewMemory } from './memory-store.ts'
import { insertRecord, insertValues } from './sql/insert-record.ts'
import { buildSearch } from './sql/search-records.ts'
import { refuseAbsent, refuseConflict } from './store-refusals.ts'
import type { VectorSupport } from './vector-support.ts'

export type PostgresStoreDeps = { readonly db: Db; readonly newId: NewId; readonly vectors: VectorSupport }

export function openPostgresStore({ db, newId, vectors }: PostgresStoreDeps): MemoryStore {
  const storeOn = (sql: Sql, inTransaction: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>): MemoryStore => ({
    name: 'postgres',
    insert: (memory, act) => inTransaction((tx) => insert(tx, newId, memory, act)),
    get: ({ workspaceId, memoryId }) => findRecord(sql, workspaceId, memoryId),
    findFact: (place) => findRival(sql, place),
    async search(scope, query, limit) {
      const { statement: built, values } = buildSearch(vectors, scope, query, limit, null)
      return sql.run(built, values)
    },
    async searchNoted(scope, query, limit, note) {
      const { statement: built, values } = buildSearch(vectors, scope, query, limit, note)
      return sql.run(built, values)
    },
    supersede: (old, by, act) => inTransaction((tx) => supersede(tx, newId, old, by, act)),
    delete: (ref, act) => inTransaction((tx) => empty(tx, newId, ref, act)),
    within: (tx) => storeOn(tx, (work) => work(tx)),
  })
  return storeOn(db, (work) => db.transaction(work))
}

const insertDerivations = statement<never>(
  'memory_insert_derivations',
  `insert into concord.memory_derivations (workspace_id, memory_id, source_memory_id, created_at)
select $1, $2, source, $4 from unnest($3::uuid[]) as source on conflict do nothing`,
)

const insertEmbedding = statement<never>(
  'memory_insert_embedding',
  `insert into concord.memory_embeddings (workspace_id, memory_id, model, embedding, created_at) values ($1, $2, $3, $4::real[], $5)
on conflict do nothing`,
)

async function insert(tx: Tx, newId: NewId, memory: NewMemory, act: Act): Promise<Decision<StoredMemory>> {
  const rival = await findRival(tx, memory)
  if (rival?.expires_at && rival.expires_at <= act.at) {
    // Over by its own end: it only has not been swept yet, and nobody is to be kept waiting by it.
    await saveRecord(tx, rival, 'expired', { act, newId })
  } else if (rival && memory.supersedes === rival.memory_id) {
    const moved = await saveRecord(tx, rival, 'superseded', { act, newId, set: { superseded_by: memory.memory_id } })
    if (!moved.ok) return refuseConflict(rival.memory_id)
  }
  const [row] = await tx.run(insertRecord, insertValues(memory, act.at))
  if (!row) return judgeTaken(tx, memory)
  const { workspace_id, memory_id, derived_from, embedding } = memory
  if (derived_from.length > 0) await tx.run(insertDerivations, [workspace_id, memory_id, derived_from, act.at])
  if (embedding) await tx.run(insertEmbedding, [workspace_id, memory_id, embedding.model, embedding.vector, act.at])
  return accept(row)
}

/** Its own id: the same write again. Otherwise somebody else has the place. */
async function judgeTaken(tx: Tx, memory: NewMemory): Promise<Decision<StoredMemory>> {
  const own = await findRecord(tx, memory.workspace_id, memory.memory_id)
  if (own && own.fact_key === memory.fact_key && isSameContent(own.content, memory.content)) return accept(own)
  return refuseConflict((await findRival(tx, memory))?.memory_id)
}

async function supersede(tx: Tx, newId: NewId, old: MemoryRef, by: string, act: Act): Promise<Decision<StoredMemory>> {
  const [record, heir] = [
    await findRecord(tx, old.workspaceId, old.memoryId),
    await findRecord(tx, old.workspaceId, by),
  ]
  if (!record || !heir) return refuseAbsent()
  const moved = await saveRecord(tx, record, 'superseded', { act, newId, set: { superseded_by: by } })
  return moved.ok ? accept(moved.row) : moved
}

const eraseEmbeddings = statement<never>(
  'memory_erase_embeddings',
  `update concord.memory_embeddings set embedding = null where workspace_id = $1 and memory_id = $2`,
)

async function empty(tx: Tx, newId: NewId, ref: MemoryRef, act: Act): Promise<Decision<StoredMemory>> {
  const record = await findRecord(tx, ref.workspaceId, ref.memoryId)
  if (!record) return refuseAbsent()
  const set = { content: {}, fact_key: `erased:${record.memory_id}` }
  const moved = await saveRecord(tx, record, 'deleted', { act, newId, set })
  if (!moved.ok) return moved
  await tx.run(eraseEmbeddings, [ref.workspaceId, ref.memoryId])
  return accept(moved.row)
}
