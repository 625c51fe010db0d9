/** The port to where memories are stored. A backend stores, finds, supersedes and empties; consents, rules and approvals never reach it. */
import type { Actor } from '#kernel/actor'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import type { Decision } from '#kernel/refusal'
import type { Tx } from '#store'
import type { FactPlace, MemoryType, StoredMemory, Subject } from './memory-record.ts'

export type Embedder = {
  /** Vectors of different models are never compared. */
  readonly model: string
  embed(texts: readonly string[]): Promise<readonly (readonly number[])[]>
}

/** Returns the strings of a content, in their order. */
export function textOf(content: JsonObject): string {
  return [...stringsIn(content)].join('\n')
}

function* stringsIn(value: JsonValue): Generator<string> {
  if (typeof value === 'string') yield value
  else if (Array.isArray(value)) for (const item of value as readonly JsonValue[]) yield* stringsIn(item)
  else if (typeof value === 'object' && value !== null) for (const item of Object.values(value)) yield* stringsIn(item)
}

/** Returns undefined without an embedder, and when it fails or returns no usable vector. The search by words still works then. */
export async function embed(embedder: Embedder | null, text: string): Promise<Embedding | undefined> {
  if (!embedder || text.trim() === '') return undefined
  try {
    const [vector] = await embedder.embed([text])
    const isUsable = vector !== undefined && vector.length > 0 && vector.every(Number.isFinite)
    return isUsable ? { model: embedder.model, vector } : undefined
  } catch {
    return undefined
  }
}

export type MemoryRef = { readonly workspaceId: string; readonly memoryId: string }

export type Embedding = { readonly model: string; readonly vector: readonly number[] }

export type NewMemory = Omit<StoredMemory, 'status' | 'superseded_by' | 'created_at' | 'updated_at'> & {
  readonly derived_from: readonly string[]
  readonly embedding?: Embedding | undefined
  /** The active record that the new one replaces. */
  readonly supersedes: string | null
}

/** Limits what a search may find; an absent field does not limit it. */
export type SearchScope = {
  readonly workspaceId: string
  readonly at: Date
  readonly subject?: Subject | undefined
  readonly memoryTypes?: readonly MemoryType[] | undefined
  /** Limits the records that follow a schema; records without a schema are always included. */
  readonly schemaNames?: readonly string[] | undefined
  readonly taskType?: string | undefined
  readonly connector?: string | undefined
  /** This user sees only their own records of scope `user`. */
  readonly viewer?: string | undefined
}

export type MemoryQuery = { readonly text: string; readonly embedding?: Embedding | undefined }

/** `score` says how well it matches the query, from 0; null without a query. `has_next` on the last one: the list was cut at its size. */
export type FoundMemory = StoredMemory & { readonly score: number | null; readonly has_next?: boolean }

export type MemoryQueryKind = 'id' | 'subject' | 'task_type' | 'connector' | 'semantic'

/** The record of a read. */
export type ReadNote = {
  readonly readId: string
  readonly reader: string
  readonly agentRunId: string | null
  readonly kind: MemoryQueryKind
  readonly traceId: string
}

export interface MemoryStore {
  readonly name: string
  /** Returns the existing record for the same memory; refuses another active record of its key with `memory.fact.conflict`. */
  insert(memory: NewMemory, actor: Actor, at: Date): Promise<Decision<StoredMemory>>
  get(ref: MemoryRef): Promise<StoredMemory | undefined>
  /** Returns the active record of a fact, expired or not; there is at most one. */
  findFact(place: FactPlace): Promise<StoredMemory | undefined>
  /** Returns records that are active and not expired at `scope.at`: the best match first, then the newest. */
  search(scope: SearchScope, query: MemoryQuery | null, limit: number): Promise<readonly FoundMemory[]>
  /** Marks the old record and links it to the new one. */
  supersede(old: MemoryRef, newId: string, actor: Actor, at: Date): Promise<Decision<StoredMemory>>
  /** Removes the content and keeps the record. */
  delete(ref: MemoryRef, actor: Actor, at: Date): Promise<Decision<StoredMemory>>
  /** Returns the same store inside a transaction, for stores in Concord's own database. */
  within?(tx: Tx): MemoryStore
  /** Searches and records the read in one statement, for stores in Concord's own database. For others the caller records it. */
  searchNoted?(
    scope: SearchScope,
    query: MemoryQuery | null,
    limit: number,
    note: ReadNote,
  ): Promise<readonly FoundMemory[]>
}
