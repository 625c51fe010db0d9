/** What memory itself knows of a subject, by lineage, and how it lets go: rows stay as ids and times, everything said in them goes. */
import type { NewId } from '#kernel/clock'
import { KernelFault } from '#kernel/errors'
import { accept } from '#kernel/refusal'
import { type Sql, statement, type Tx } from '#store'
import type { KnownItem } from './decide-erasure.ts'
import type { Act } from './events.ts'
import type { Forgettable, Lineage } from './forgettable.ts'
import { saveCandidate, saveRecord } from './memory-repository.ts'
import { candidateColumns, recordColumns, type StoredCandidate, type StoredMemory, type Subject } from './memory-row.ts'

/** The records of the subject and everything made from them, however many steps away; by candidates too, whose records may be elsewhere. */
type LineageRow = { readonly [column in 'command_id' | 'subject_type' | 'subject_id']: string | null } & {
  readonly memory_id: string
}
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

export async function findLineage(sql: Sql, workspaceId: string, subject: Subject): Promise<Lineage> {
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

const valuesOf = ({ workspaceId, subject, memoryIds }: Lineage) => [
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
    async erase(tx, lineage, { erasureId, ...act }) {
      const { workspaceId, subject, memoryIds } = lineage
      const items = await tx.run(listKnown, valuesOf(lineage))
      const nobody = `erased:${erasureId}`
      await eraseCandidates(tx, newId, lineage, act, nobody)
      for (const record of await tx.run(lockRecords, [workspaceId, memoryIds])) {
        if (record.status === 'deleted') continue
        const set = { content: {}, subject_id: nobody, fact_key: `erased:${record.memory_id}` }
        const moved = await saveRecord(tx, record, 'deleted', { act, newId, set, payload: { erasure_id: erasureId } })
        if (!moved.ok) throw new KernelFault('memory.erase.lost', moved.reason)
      }
      await tx.run(blankRecords, [workspaceId, memoryIds, nobody])
      await tx.run(blankEmbeddings, [workspaceId, memoryIds])
      const who = [workspaceId, subject.subject_type, subject.subject_id, nobody]
      await tx.run(blankConsents, [...who, act.at])
      await tx.run(blankHolds, who)
      return accept(items)
    },
  }
}

/** What nobody has decided yet is decided by this: there is nothing left to write. */
async function eraseCandidates(tx: Tx, newId: NewId, lineage: Lineage, act: Act, nobody: string): Promise<void> {
  const candidates = await tx.run(lockCandidates, valuesOf(lineage))
  for (const candidate of candidates) {
    if (candidate.status !== 'proposed' && candidate.status !== 'awaiting_approval') continue
    const moved = await saveCandidate(tx, candidate, 'rejected', { act, newId, payload: { reason: 'erased' } })
    if (!moved.ok) throw new KernelFault('memory.erase.lost', moved.reason)
  }
  const ids = candidates.map(({ memory_candidate_id }) => memory_candidate_id)
  await tx.run(blankCandidates, [lineage.workspaceId, ids, nobody, act.at])
}
