/** What the services of this room need from outside, and the port through which every room lists and erases its data about a subject. */
import type { Actor } from '#kernel/actor'
import type { Clock, NewId } from '#kernel/clock'
import type { Decision } from '#kernel/refusal'
import type { Db, Sql, Tx } from '#store'
import type { StoredConsent, StoredHold, Subject } from './memory-record.ts'
import type { MemorySchemas } from './memory-schema.ts'
import type { Embedder, MemoryStore } from './memory-store.ts'

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

/** One item with data about the subject: its kind and id, never its content. */
export type KnownItem = { readonly kind: string; readonly id: string; readonly isHeld?: boolean }

/** A subject, the memories about it or derived from it, and the commands that wrote them. */
export type SubjectLineage = {
  readonly workspaceId: string
  readonly subject: Subject
  readonly memoryIds: readonly string[]
  readonly commandIds: readonly string[]
  /** The subject, and the subjects of the derived memories, which may be others. */
  readonly subjects: readonly Subject[]
}

export type ErasureContext = { readonly erasureId: string; readonly actor: Actor; readonly at: Date }

export type Forgettable = {
  /** The kind of its items: `memory`, `artifact`. */
  readonly kind: string
  /** Lists everything about the subject or derived from its lineage, without content, and what is on hold. */
  list(sql: Sql, lineage: SubjectLineage): Promise<readonly KnownItem[]>
  /** Erases it in the transaction of the erasure and returns at least the items of `list`. A refusal rolls back the erasure of every room. */
  erase(tx: Tx, lineage: SubjectLineage, context: ErasureContext): Promise<Decision<readonly KnownItem[]>>
  /** Runs after the commit with the erased ids of its kind, for what is outside the database. Runs again when the erasure is repeated. */
  settle?(workspaceId: string, ids: readonly string[]): Promise<Decision<null>>
}

export type ForgetPreview = {
  readonly items: readonly KnownItem[]
  readonly consents: readonly StoredConsent[]
  readonly holds: readonly StoredHold[]
  /** How many active holds there are, on the subject or on items about it. An erasure needs zero. */
  readonly hold_count: number
}
