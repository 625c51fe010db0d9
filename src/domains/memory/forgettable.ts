/** The port through which other rooms say what they know of a subject, and let go of it. Each room brings its own; memory is the first. */
import { hash } from 'node:crypto'
import { canonicalJson } from '#kernel/canonical-json'
import type { NewId } from '#kernel/clock'
import { KernelFault } from '#kernel/errors'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Sql, statement, type Tx } from '#store'
import type { Act } from './events.ts'
import {
  candidateColumns,
  recordColumns,
  saveCandidate,
  saveRecord,
  type StoredCandidate,
  type StoredHold,
  type StoredMemory,
  type Subject,
} from './memory-repository.ts'
import type { MemoryStore } from './memory-store.ts'

/** One thing that knows the subject: its kind and id, never what it says. */
export type KnownItem = { readonly kind: string; readonly id: string; readonly isHeld?: boolean }

/** Of the subject itself, and of things that know it. */
export function countHolds(
  holds: readonly Pick<StoredHold, 'released_at'>[],
  items: readonly Pick<KnownItem, 'isHeld'>[],
): number {
  return holds.filter(({ released_at }) => released_at === null).length + items.filter(({ isHeld }) => isHeld).length
}

export function decideErasure(holds: readonly Pick<StoredHold, 'released_at'>[]): Decision<null> {
  const standing = countHolds(holds, [])
  if (standing === 0) return accept(null)
  return refuse(
    'memory.forget.held',
    `${standing === 1 ? 'A hold stands' : `${standing} holds stand`} on what would be erased.`,
    {
      hint: 'The person who placed the hold must release it first: concord memory holds --subject … shows who.',
      facts: { holds: standing },
    },
  )
}

export type Certificate = {
  readonly document: JsonObject
  /** Stands in the audit too: an edited certificate shows. */
  readonly hash: string
}

export function writeCertificate(of: {
  readonly erasureId: string
  readonly subjectDigest: string
  readonly items: readonly KnownItem[]
  readonly at: Date
}): Certificate {
  const kinds = [...new Set(of.items.map(({ kind }) => kind))].toSorted()
  const idsOf = (kind: string) => of.items.filter((item) => item.kind === kind).map(({ id }) => id)
  const document: JsonObject = {
    memory_erasure_id: of.erasureId,
    subject_digest: of.subjectDigest,
    erased_at: of.at.toISOString(),
    counts: Object.fromEntries(kinds.map((kind) => [kind, idsOf(kind).length])),
    erased: Object.fromEntries(kinds.map((kind) => [kind, idsOf(kind).toSorted()])),
  }
  return { document, hash: hash('sha256', canonicalJson(document)) }
}

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

/** What a memory store outside this database knows of a subject: the records that the lineage names, deleted one by one. */
const KIND = 'stored_memory'

/** Such a store has no part in the transaction: an erasure that fails later has deleted already, and is repeated until it is done. */
export function forgetStored(store: MemoryStore): Forgettable {
  const held = async ({ workspaceId, memoryIds }: Lineage) => {
    const records = await Promise.all(memoryIds.map((memoryId) => store.get({ workspaceId, memoryId })))
    return records.flatMap((record) => (record && record.status !== 'deleted' ? [record.memory_id] : []))
  }
  return {
    kind: KIND,
    list: async (_sql, lineage) => (await held(lineage)).map((id) => ({ kind: KIND, id })),
    async erase(_tx, lineage, act) {
      const ids = await held(lineage)
      for (const memoryId of ids) {
        const gone = await store.delete({ workspaceId: lineage.workspaceId, memoryId }, act)
        if (!gone.ok) return gone
      }
      return accept(ids.map((id) => ({ kind: KIND, id })))
    },
  }
}

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
