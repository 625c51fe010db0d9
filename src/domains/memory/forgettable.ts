/** The port through which other rooms say what they know of a subject, and let go of it. Each room brings its own; memory is the first. */
import type { Decision } from '#kernel/refusal'
import type { Sql, Tx } from '#store'
import type { KnownItem } from './decide-erasure.ts'
import type { Act } from './events.ts'
import type { Subject } from './memory-row.ts'

/** Whom it is about, and the lineage: the memories that know it and the commands that wrote them. */
export type Lineage = {
  readonly workspaceId: string
  readonly subject: Subject
  readonly memoryIds: readonly string[]
  readonly commandIds: readonly string[]
  /** Itself, and whomever else those memories are about: what was made from one may be about another. */
  readonly subjects: readonly Subject[]
}

export type Forgettable = {
  /** What its items are called: `memory`, `artifact`. */
  readonly kind: string
  /** Everything made about the subject or from the lineage, without what it says; with what must be kept for now. */
  list(sql: Sql, lineage: Lineage): Promise<readonly KnownItem[]>
  /** Empties it in the transaction of the erasure, and says what it emptied: the same as `list` said, or more. A refusal undoes all of it, of every room. */
  erase(tx: Tx, lineage: Lineage, act: Act & { readonly erasureId: string }): Promise<Decision<readonly KnownItem[]>>
  /** After the commit, with the ids of its kind: what no transaction reaches. Again whenever the erasure is repeated. */
  settle?(workspaceId: string, ids: readonly string[]): Promise<Decision<null>>
}
