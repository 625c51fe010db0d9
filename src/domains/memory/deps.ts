/** What the services of this room need from outside; `openMemory` finds out what the database can do and fills in the defaults. */
import type { Clock, NewId } from '#kernel/clock'
import { accept, type Decision } from '#kernel/refusal'
import type { Db } from '#store'
import { forgetMemories, forgetStored, type Forgettable } from './forgettable.ts'
import { type MemorySchemas, openMemorySchemas } from './memory-schema.ts'
import type { Embedder, MemoryStore } from './memory-store.ts'
import { detectVectorSupport, openPostgresStore, type VectorSupport } from './postgres-store.ts'

export type MemoryDeps = {
  readonly db: Db
  readonly now: Clock
  readonly newId: NewId
  readonly store: MemoryStore
  readonly schemas: MemorySchemas
  readonly embedder: Embedder | null
  /** Memory itself first; then what other rooms brought. */
  readonly forgettables: readonly Forgettable[]
  readonly vectors: VectorSupport
}

export type MemoryOptions = Pick<MemoryDeps, 'db' | 'now' | 'newId'> & {
  readonly store?: MemoryStore
  readonly schemas?: readonly unknown[]
  readonly embedder?: Embedder | null
  readonly forgettables?: readonly Forgettable[]
}

export async function openMemory(options: MemoryOptions): Promise<Decision<MemoryDeps>> {
  const { db, now, newId, embedder = null } = options
  const schemas = openMemorySchemas(options.schemas ?? [])
  if (!schemas.ok) return schemas
  const vectors = await detectVectorSupport(db)
  const store = options.store ?? openPostgresStore({ db, newId, vectors })
  const elsewhere = store.within ? [] : [forgetStored(store)]
  return accept({
    db,
    now,
    newId,
    embedder,
    vectors,
    store,
    schemas: schemas.value,
    forgettables: [forgetMemories(newId), ...elsewhere, ...(options.forgettables ?? [])],
  })
}
