/** Forgetting a subject: the preview, the request, and the erasure that leaves only a certificate (M9, M10). */
import { hash } from 'node:crypto'
import type { Actor } from '#kernel/actor'
import { canonicalJson } from '#kernel/canonical-json'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { defineTable, type Sql, statement, type Tx } from '#store'
import { listConsents } from './consent.ts'
import type { ForgetPreview, KnownItem, MemoryDeps, SubjectLineage } from './deps.ts'
import { memoryLog } from './events.ts'
import { findLineage } from './forget-memories.ts'
import { excludeWriters, listActiveHolds, listHolds } from './hold.ts'
import { subjectDigest } from './memory-content.ts'
import type { StoredErasure, Subject } from './memory-record.ts'

const erasures = defineTable<StoredErasure>()({
  name: 'concord.memory_erasures',
  noun: 'memory_erasure',
  id: 'memory_erasure_id',
  tenant: 'workspace_id',
  log: memoryLog,
  links: ['workspace_id', 'command_id'],
})

const CONSENTS_MAX = 500

export async function previewForget(
  { db, forgettables }: Pick<MemoryDeps, 'db' | 'forgettables'>,
  workspaceId: string,
  subject: Subject,
): Promise<ForgetPreview> {
  const lineage = await findLineage(db, workspaceId, subject)
  const items: KnownItem[] = []
  for (const room of forgettables) items.push(...(await room.list(db, lineage)))
  const consents = await listConsents(db, { workspaceId, subject, viewer: undefined, limit: CONSENTS_MAX })
  const active = await listActiveHolds(db, workspaceId, lineage.subjects)
  const own = await listHolds(db, workspaceId, subject)
  const holds = [...new Map([...active, ...own].map((hold) => [hold.memory_hold_id, hold])).values()]
  return { items, consents, holds, hold_count: active.length + items.filter(({ isHeld }) => isHeld).length }
}

/** Locks the subject and every subject of its lineage against writers and new holds, until the transaction ends. */
async function lockLineage(tx: Tx, workspaceId: string, subject: Subject): Promise<SubjectLineage> {
  let locked: readonly Subject[] = []
  for (let subjects: readonly Subject[] = [subject]; ; ) {
    for (const each of subjects) await excludeWriters(tx, workspaceId, each)
    locked = [...locked, ...subjects]
    const lineage = await findLineage(tx, workspaceId, subject)
    // Earlier writers have committed by now, and may have added derived memories about other subjects.
    subjects = lineage.subjects.filter((one) => !locked.some((other) => isSameSubject(one, other)))
    if (subjects.length === 0) return lineage
  }
}

function isSameSubject(one: Subject, other: Subject): boolean {
  return one.subject_type === other.subject_type && one.subject_id === other.subject_id
}

const insertErasureSql = statement<StoredErasure>(
  'memory_insert_erasure',
  `insert into concord.memory_erasures (memory_erasure_id, workspace_id, command_id, subject_type, subject_id, subject_digest, requested_by, requested_at)
values ($1, $2, $3, $4, $5, $6, $7, $8) returning *`,
)

export type ErasureRef = { readonly workspaceId: string; readonly erasureId: string }

export type NewErasure = ErasureRef & { readonly commandId: string; readonly subject: Subject }

/** Runs in the transaction that opens its command. The command names the erasure, never the subject. */
export async function insertErasure(
  tx: Tx,
  { now, newId }: Pick<MemoryDeps, 'now' | 'newId'>,
  actor: Actor,
  { workspaceId, erasureId, commandId, subject }: NewErasure,
): Promise<Decision<StoredErasure>> {
  const at = now()
  const digest = subjectDigest(erasureId, subject)
  const { subject_type, subject_id } = subject
  const values = [erasureId, workspaceId, commandId, subject_type, subject_id, digest, actor.id, at]
  const [row] = await tx.run(insertErasureSql, values)
  if (!row) return refuseAbsent()
  const payload = { subject_digest: digest }
  await erasures.append(tx, row, actor, { type: 'memory_forget_requested', at, newId, payload })
  return accept(row)
}

const refuseAbsent = () => refuse('memory.erasure.not_found', 'There is no such erasure.')

export async function getErasure(sql: Sql, { workspaceId, erasureId }: ErasureRef): Promise<Decision<StoredErasure>> {
  const row = await erasures.find(sql, workspaceId, erasureId)
  return row ? accept(row) : refuseAbsent()
}

const lockErasure = statement<StoredErasure>(
  'memory_lock_erasure',
  `select * from concord.memory_erasures where memory_erasure_id = $1 and workspace_id = $2 for update`,
)
const closeErasure = statement<StoredErasure>(
  'memory_close_erasure',
  `update concord.memory_erasures set outcome = $3, closed_at = $4, subject_id = null, certificate = $5, certificate_hash = $6
where memory_erasure_id = $1 and workspace_id = $2 and outcome is null returning *`,
)

type EraseSubject = ErasureRef & { readonly commandId: string }

/** Erases in all rooms in one commit, then what is outside the database. A repeat returns the existing certificate. */
export async function eraseSubject(
  deps: MemoryDeps,
  actor: Actor,
  ref: EraseSubject,
): Promise<Decision<StoredErasure>> {
  const erased = await eraseRows(deps, actor, ref)
  if (!erased.ok) return erased
  // `writeCertificate` made it: lists of ids by kind.
  const ids = erased.value.certificate?.['erased'] as Readonly<Record<string, readonly string[]>> | undefined
  for (const room of deps.forgettables) {
    const settled = await room.settle?.(ref.workspaceId, ids?.[room.kind] ?? [])
    if (settled?.ok === false) return settled
  }
  return erased
}

function eraseRows(
  { db, now, newId, forgettables }: MemoryDeps,
  actor: Actor,
  { workspaceId, erasureId, commandId }: EraseSubject,
): Promise<Decision<StoredErasure>> {
  return db.transaction(async (tx) => {
    const [erasure] = await tx.run(lockErasure, [erasureId, workspaceId])
    if (erasure?.command_id !== commandId) return refuseAbsent()
    const { subject_type, subject_id, subject_digest, outcome } = erasure
    if (outcome === 'erased') return accept(erasure)
    if (subject_id === null) return refuse('row.conflict', 'This erasure was dropped.')
    const lineage = await lockLineage(tx, workspaceId, { subject_type, subject_id })
    const holds = await listActiveHolds(tx, workspaceId, lineage.subjects)
    if (holds.length > 0) return refuseHeld(holds.length)
    const at = now()
    const items: KnownItem[] = []
    // Memory goes last: its rows hold the lineage by which the other rooms find their items.
    for (const room of forgettables.toReversed()) {
      const emptied = await room.erase(tx, lineage, { erasureId, actor, at })
      if (!emptied.ok) return emptied
      items.push(...emptied.value)
    }
    const { document, hash: certificate_hash } = writeCertificate(erasureId, subject_digest, items, at)
    const [closed] = await tx.run(closeErasure, [erasureId, workspaceId, 'erased', at, document, certificate_hash])
    if (!closed) return refuseAbsent()
    const payload = { certificate_hash, counts: document['counts'] ?? {} }
    await erasures.append(tx, closed, actor, { type: 'memory_erased', at, newId, payload })
    return accept(closed)
  })
}

function refuseHeld(count: number): Decision<never> {
  const holds = count === 1 ? 'One active hold prevents' : `${count} active holds prevent`
  return refuse('memory.forget.held', `${holds} this erasure.`, {
    hint: 'The person who placed the hold must release it first: concord memory holds --subject … shows who.',
    facts: { holds: count },
  })
}

/** The hash is in the audit event too, so that an edited certificate is detected. */
export function writeCertificate(
  erasureId: string,
  subject_digest: string,
  items: readonly KnownItem[],
  at: Date,
): { readonly document: JsonObject; readonly hash: string } {
  const kinds = [...new Set(items.map(({ kind }) => kind))].toSorted()
  const idsOf = (kind: string) => items.filter((item) => item.kind === kind).map(({ id }) => id)
  const document: JsonObject = {
    memory_erasure_id: erasureId,
    subject_digest,
    erased_at: at.toISOString(),
    counts: Object.fromEntries(kinds.map((kind) => [kind, idsOf(kind).length])),
    erased: Object.fromEntries(kinds.map((kind) => [kind, idsOf(kind).toSorted()])),
  }
  return { document, hash: hash('sha256', canonicalJson(document)) }
}

/** Closes the erasure of a command that ended without it, and removes the subject from its row. */
export async function dropErasure(sql: Sql, { workspaceId, erasureId }: ErasureRef, at: Date): Promise<void> {
  await sql.run(closeErasure, [erasureId, workspaceId, 'dropped', at, null, null])
}
