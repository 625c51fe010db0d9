/** The port behind which memories are kept. A backend stores, finds, replaces and empties; it never sees a consent, a rule or a question to a person. */
import type { JsonObject, JsonValue } from '#kernel/json-value'
import type { Decision } from '#kernel/refusal'
import type { Tx } from '#store'
import type { Act } from './events.ts'
import type { MemoryContent, MemoryQueryKind, MemoryType, StoredMemory, Subject } from './memory-repository.ts'

export type Embedder = {
  /** Vectors of two models are never compared. */
  readonly model: string
  embed(texts: readonly string[]): Promise<readonly (readonly number[])[]>
}

/** What of a content is text: the strings in it, in their order. */
export function textOf(content: JsonObject): string {
  return [...stringsIn(content)].join('\n')
}

function* stringsIn(value: JsonValue): Generator<string> {
  if (typeof value === 'string') yield value
  else if (Array.isArray(value)) for (const item of value as readonly JsonValue[]) yield* stringsIn(item)
  else if (typeof value === 'object' && value !== null) for (const item of Object.values(value)) yield* stringsIn(item)
}

/** Undefined: there is no embedder, it gave nothing usable, or it failed. Words still find what vectors would have. */
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

/** Where a fact has its one place. */
export type FactPlace = Pick<StoredMemory, 'workspace_id' | 'scope' | 'subject_type' | 'subject_id' | 'fact_key'>

export type Embedding = { readonly model: string; readonly vector: readonly number[] }

export type NewMemory = MemoryContent & {
  readonly memory_id: string
  readonly workspace_id: string
  readonly command_id: string | null
  readonly memory_candidate_id: string | null
  readonly derived_from: readonly string[]
  readonly embedding?: Embedding | undefined
  /** The active record whose place it takes. */
  readonly supersedes: string | null
}

/** What may be found at all; what is absent does not narrow. */
export type SearchScope = {
  readonly workspaceId: string
  readonly at: Date
  readonly subject?: Subject | undefined
  readonly memoryTypes?: readonly MemoryType[] | undefined
  /** Records that follow a schema, only of these; records without one are not narrowed by it. */
  readonly schemaNames?: readonly string[] | undefined
  readonly taskType?: string | undefined
  readonly connector?: string | undefined
  /** A user who sees under scope `user` only what is about that user. */
  readonly viewer?: string | undefined
}

export type MemoryQuery = { readonly text: string; readonly embedding?: Embedding | undefined }

/** `score`: how well it fits the query, from 0; null where nothing was asked. */
export type FoundMemory = StoredMemory & { readonly score: number | null }

/** What is noted of a read. */
export type ReadNote = {
  readonly readId: string
  readonly reader: string
  readonly agentRunId: string | null
  readonly kind: MemoryQueryKind
  readonly traceId: string
}

export interface MemoryStore {
  readonly name: string
  /** The same memory again gives the record that is there; another active record of its key is `memory.fact.conflict`. */
  insert(memory: NewMemory, act: Act): Promise<Decision<StoredMemory>>
  get(ref: MemoryRef): Promise<StoredMemory | undefined>
  /** The active record of a fact, expired or not: there is never a second. */
  findFact(place: FactPlace): Promise<StoredMemory | undefined>
  /** Active and not expired at `scope.at`; best first, then newest first. */
  search(scope: SearchScope, query: MemoryQuery | null, limit: number): Promise<readonly FoundMemory[]>
  /** The old record stays, marked and linked. */
  supersede(old: MemoryRef, newId: string, act: Act): Promise<Decision<StoredMemory>>
  /** The record stays without its content. */
  delete(ref: MemoryRef, act: Act): Promise<Decision<StoredMemory>>
  /** The same store inside a transaction of Concord's own database, for stores that are in it. */
  within?(tx: Tx): MemoryStore
  /** Finds and notes the read in one statement, for stores in the same database; for others the caller notes it. */
  searchNoted?(
    scope: SearchScope,
    query: MemoryQuery | null,
    limit: number,
    note: ReadNote,
  ): Promise<readonly FoundMemory[]>
}
