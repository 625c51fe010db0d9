/** The port through which every room lists and erases what it knows about a subject. Memory itself is the first of them. */
import type { Actor } from '#kernel/actor'
import type { NewId } from '#kernel/clock'
import { KernelFault } from '#kernel/errors'
import { accept, type Decision } from '#kernel/refusal'
import { type Sql, statement, type Tx } from '#store'
import { candidateColumns, saveCandidate } from './candidate.ts'
import { recordColumns, saveRecord, type StoredCandidate, type StoredMemory, type Subject } from './memory-record.ts'
import type { MemoryStore } from './memory-store.ts'

/** One thing that knows the subject: its kind and id, never its content. */
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

const STORED = 'stored_memory'

/**
 * A memory store outside this database: the records of the lineage, deleted one by one. The store is not part of the transaction: an
 * erasure that fails later has already deleted them, and is repeated until it succeeds.
 */
export function forgetStored(store: MemoryStore): Forgettable {
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

type LineageRow = { readonly [column in 'command_id' | 'subject_type' | 'subject_id']: string | null } & {
  readonly memory_id: string
}

/**
 * The records of the subject and everything derived from them, over any number of steps. It also follows candidates, whose records may be in
 * another store.
 */
const listLineage = statement<LineageRow>(
  'memory_list_lineage',
  `with recursive line (memory_id) as (
  (select memory_id from concord.memory_records where workspace_id = $1 and subject_type = $2 and subject_id = $3
  union select memory_id from concord.memory_candidates
    where workspace_id = $1 and subject_type = $2 and subject_id = $3 and memory_id is not null)
  union
  select d.memory_id from line cross join lateral (
    select memory_id from concord.memory_derivations where workspace_id = $1 and source_memory_id = line.memory_id
    union all select memory_id from concord.memory_candidates
      where workspace_id = $1 and derived_from <> '{}' and derived_from @> array[line.memory_id] and memory_id is not null) as d
)
select line.memory_id, coalesce(r.command_id, c.command_id) as command_id,
  coalesce(r.subject_type, c.subject_type) as subject_type, coalesce(r.subject_id, c.subject_id) as subject_id from line
left join concord.memory_records as r on r.memory_id = line.memory_id
left join concord.memory_candidates as c on c.memory_candidate_id = line.memory_id order by line.memory_id`,
)

export async function findLineage(sql: Sql, workspaceId: string, subject: Subject): Promise<SubjectLineage> {
  const rows = await sql.run(listLineage, [workspaceId, subject.subject_type, subject.subject_id])
  const others = rows.flatMap(({ subject_type, subject_id }) =>
    subject_type !== null && subject_id !== null ? [{ subject_type, subject_id }] : [],
  )
  const subjects = new Map([subject, ...others].map((each) => [`${each.subject_type}:${each.subject_id}`, each]))
  return {
    workspaceId,
    subject,
    subjects: [...subjects.values()],
    memoryIds: rows.map(({ memory_id }) => memory_id),
    commandIds: [...new Set(rows.flatMap(({ command_id }) => command_id ?? []))],
  }
}

const listKnown = statement<KnownItem>(
  'memory_list_known',
  `select case when subject_type = $2 and subject_id = $3 then 'memory' else 'derived_memory' end as kind, memory_id::text as id
from concord.memory_records where workspace_id = $1 and memory_id = any ($4::uuid[])
union all select 'memory_candidate', memory_candidate_id::text from concord.memory_candidates
where workspace_id = $1 and ((subject_type = $2 and subject_id = $3) or memory_id = any ($4::uuid[]) or derived_from && $4::uuid[])
union all select 'embedding', memory_id || ' ' || model from concord.memory_embeddings
where workspace_id = $1 and memory_id = any ($4::uuid[]) and embedding is not null
union all select 'memory_consent', memory_consent_id::text from concord.memory_consents where workspace_id = $1 and subject_type = $2 and subject_id = $3
order by 1, 2`,
)

const valuesOf = ({ workspaceId, subject, memoryIds }: SubjectLineage) => [
  workspaceId,
  subject.subject_type,
  subject.subject_id,
  memoryIds,
]

const lockRecords = statement<StoredMemory>(
  'memory_lock_lineage',
  `select ${recordColumns} from concord.memory_records where workspace_id = $1 and memory_id = any ($2::uuid[]) order by memory_id for update`,
)
const blankRecords = statement<never>(
  'memory_blank_records',
  `update concord.memory_records set subject_id = $3, fact_key = 'erased:' || memory_id where workspace_id = $1 and memory_id = any ($2::uuid[])`,
)
const lockCandidates = statement<StoredCandidate>(
  'memory_lock_known_candidates',
  `select ${candidateColumns} from concord.memory_candidates
where workspace_id = $1 and ((subject_type = $2 and subject_id = $3) or memory_id = any ($4::uuid[]) or derived_from && $4::uuid[])
order by memory_candidate_id for update`,
)
const blankCandidates = statement<never>(
  'memory_blank_candidates',
  `update concord.memory_candidates set content = '{}', subject_id = $3, fact_key = 'erased', erased_at = coalesce(erased_at, $4)
where workspace_id = $1 and memory_candidate_id = any ($2::uuid[])`,
)
const blankEmbeddings = statement<never>(
  'memory_blank_embeddings',
  `update concord.memory_embeddings set embedding = null where workspace_id = $1 and memory_id = any ($2::uuid[])`,
)
const blankConsents = statement<never>(
  'memory_blank_consents',
  `update concord.memory_consents set revoked_at = coalesce(revoked_at, $5), revoked_by = coalesce(revoked_by, 'system'), subject_id = $4
where workspace_id = $1 and subject_type = $2 and subject_id = $3`,
)
const blankHolds = statement<never>(
  'memory_blank_holds',
  `update concord.memory_holds set subject_id = $4, reason = 'erased' where workspace_id = $1 and subject_type = $2 and subject_id = $3`,
)

export function forgetMemories(newId: NewId): Forgettable {
  return {
    kind: 'memory',
    list: (sql, lineage) => sql.run(listKnown, valuesOf(lineage)),
    async erase(tx, lineage, context) {
      const { workspaceId, subject, memoryIds } = lineage
      const { erasureId, actor, at } = context
      const items = await tx.run(listKnown, valuesOf(lineage))
      const erasedId = `erased:${erasureId}`
      await eraseCandidates(tx, newId, lineage, context, erasedId)
      for (const record of await tx.run(lockRecords, [workspaceId, memoryIds])) {
        if (record.status === 'deleted') continue
        const set = { content: {}, subject_id: erasedId, fact_key: `erased:${record.memory_id}` }
        const moving = { at, newId, set, payload: { erasure_id: erasureId } }
        const moved = await saveRecord(tx, record, 'deleted', actor, moving)
        if (!moved.ok) throw new KernelFault('memory.erase.lost', moved.reason)
      }
      await tx.run(blankRecords, [workspaceId, memoryIds, erasedId])
      await tx.run(blankEmbeddings, [workspaceId, memoryIds])
      const who = [workspaceId, subject.subject_type, subject.subject_id, erasedId]
      await tx.run(blankConsents, [...who, at])
      await tx.run(blankHolds, who)
      return accept(items)
    },
  }
}

/** Open candidates are rejected: there is nothing left to write. */
async function eraseCandidates(
  tx: Tx,
  newId: NewId,
  lineage: SubjectLineage,
  { actor, at }: ErasureContext,
  erasedId: string,
): Promise<void> {
  const candidates = await tx.run(lockCandidates, valuesOf(lineage))
  for (const candidate of candidates) {
    if (candidate.status !== 'proposed' && candidate.status !== 'awaiting_approval') continue
    const moved = await saveCandidate(tx, candidate, 'rejected', actor, { at, newId, payload: { reason: 'erased' } })
    if (!moved.ok) throw new KernelFault('memory.erase.lost', moved.reason)
  }
  const ids = candidates.map(({ memory_candidate_id }) => memory_candidate_id)
  await tx.run(blankCandidates, [lineage.workspaceId, ids, erasedId, at])
}
