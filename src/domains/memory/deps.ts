/** What the services of this room need from outside. `openMemory` detects what the database supports and fills in the defaults. */
import type { Clock, NewId } from '#kernel/clock'
import { accept, type Decision } from '#kernel/refusal'
import type { Db } from '#store'
import { forgetMemories, forgetStored, type Forgettable } from './forgettable.ts'
import { type MemorySchemas, openMemorySchemas } from './memory-schema.ts'
import type { Embedder, MemoryStore } from './memory-store.ts'
import { detectVectorSupport, openPostgresStore } from './postgres-store.ts'

export type MemoryDeps = {
  readonly db: Db
  readonly now: Clock
  readonly newId: NewId
  readonly store: MemoryStore
  readonly schemas: MemorySchemas
  readonly embedder: Embedder | null
  /** Memory itself comes first, then the other rooms. */
  readonly forgettables: readonly Forgettable[]
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
  const store = options.store ?? openPostgresStore({ db, newId, vectors: await detectVectorSupport(db) })
  const outside = store.within ? [] : [forgetStored(store)]
  const forgettables = [forgetMemories(newId), ...outside, ...(options.forgettables ?? [])]
  return accept({ db, now, newId, embedder, store, schemas: schemas.value, forgettables })
}
