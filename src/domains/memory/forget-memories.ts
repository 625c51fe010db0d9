/** The data of this room about a subject: its lineage, and how the rows of the lineage are emptied. */
import type { NewId } from '#kernel/clock'
import { KernelFault } from '#kernel/errors'
import { accept } from '#kernel/refusal'
import { type Sql, statement, type Tx } from '#store'
import { candidateColumns, saveCandidate } from './candidate.ts'
import type { ErasureContext, Forgettable, KnownItem, SubjectLineage } from './deps.ts'
import { recordColumns, saveRecord, type StoredCandidate, type StoredMemory, type Subject } from './memory-record.ts'

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
