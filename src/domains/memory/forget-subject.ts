/** Forgetting a subject: what is known of it, the request, and the erasure that leaves a certificate and nothing else (M9, M10). */
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Sql, statement, type Tx } from '#store'
import { listConsents } from './consent.ts'
import type { MemoryDeps } from './deps.ts'
import { type Act, tellMemory } from './events.ts'
import { subjectDigest } from './memory-content.ts'
import {
  countHolds,
  decideErasure,
  findLineage,
  type KnownItem,
  type Lineage,
  writeCertificate,
} from './forgettable.ts'
import { listHolds, listStandingHolds, lockSubject } from './hold.ts'
import type { StoredConsent, StoredErasure, StoredHold, Subject } from './memory-repository.ts'

export type ForgetPreview = {
  readonly items: readonly KnownItem[]
  readonly consents: readonly StoredConsent[]
  readonly holds: readonly StoredHold[]
  readonly may_erase: boolean
}

const CONSENTS_MAX = 500

export async function previewForget(
  deps: Pick<MemoryDeps, 'db' | 'forgettables'>,
  workspaceId: string,
  subject: Subject,
): Promise<ForgetPreview> {
  const lineage = await findLineage(deps.db, workspaceId, subject)
  const items: KnownItem[] = []
  for (const room of deps.forgettables) items.push(...(await room.list(deps.db, lineage)))
  const consents = await listConsents(deps.db, { workspaceId, subject, viewer: undefined, limit: CONSENTS_MAX })
  const standing = await listStandingHolds(deps.db, lineage)
  const own = await listHolds(deps.db, workspaceId, subject)
  const holds = [...new Map([...standing, ...own].map((hold) => [hold.memory_hold_id, hold])).values()]
  return { items, consents, holds, may_erase: countHolds(holds, items) === 0 }
}

/** The lineage, and nobody who writes to it or places a hold on a part of it until the transaction ends. */
async function lockLineage(tx: Tx, workspaceId: string, subject: Subject): Promise<Lineage> {
  let locked: readonly Subject[] = []
  for (let subjects: readonly Subject[] = [subject]; ; ) {
    for (const each of subjects) await lockSubject(tx, workspaceId, each)
    locked = [...locked, ...subjects]
    const lineage = await findLineage(tx, workspaceId, subject)
    // Whoever was writing before has committed: what they wrote may be about somebody else again.
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

export type NewErasure = {
  readonly workspaceId: string
  readonly erasureId: string
  readonly commandId: string
  readonly subject: Subject
}

/** In the transaction that opens its command; the command itself names the request, not the subject. */
export async function insertErasure(
  tx: Tx,
  newId: MemoryDeps['newId'],
  act: Act,
  { workspaceId, erasureId, commandId, subject }: NewErasure,
): Promise<Decision<StoredErasure>> {
  const digest = subjectDigest(erasureId, subject)
  const { subject_type, subject_id } = subject
  const values = [erasureId, workspaceId, commandId, subject_type, subject_id, digest, act.actor, act.at]
  const [row] = await tx.run(insertErasureSql, values)
  await tellMemory(tx, newId, act, [
    {
      type: 'memory_forget_requested',
      workspaceId,
      target: 'memory_erasure',
      targetId: erasureId,
      payload: { subject_digest: digest },
      links: { command_id: commandId },
    },
  ])
  return row ? accept(row) : refuseAbsent()
}

const refuseAbsent = () => refuse('memory.erasure.not_found', 'There is no such erasure.')

export type ErasureRef = { readonly workspaceId: string; readonly erasureId: string }

const findErasureSql = statement<StoredErasure>(
  'memory_find_erasure',
  `select * from concord.memory_erasures where memory_erasure_id = $1 and workspace_id = $2`,
)

export async function getErasure(sql: Sql, { workspaceId, erasureId }: ErasureRef): Promise<Decision<StoredErasure>> {
  const [row] = await sql.run(findErasureSql, [erasureId, workspaceId])
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

/** All rooms in one commit, or none; then what no commit reaches. Repeated, it gives the certificate that is there. */
export async function eraseSubject(
  deps: MemoryDeps,
  act: Act,
  ref: ErasureRef & { readonly commandId: string },
): Promise<Decision<StoredErasure>> {
  const erased = await eraseRows(deps, act, ref)
  if (!erased.ok) return erased
  // The certificate was written by this code: lists of ids by kind.
  const ids = erased.value.certificate?.['erased'] as Readonly<Record<string, readonly string[]>> | undefined
  for (const room of deps.forgettables) {
    const settled = await room.settle?.(ref.workspaceId, ids?.[room.kind] ?? [])
    if (settled?.ok === false) return settled
  }
  return erased
}

function eraseRows(
  deps: MemoryDeps,
  act: Act,
  ref: ErasureRef & { readonly commandId: string },
): Promise<Decision<StoredErasure>> {
  const { workspaceId, erasureId } = ref
  return deps.db.transaction(async (tx) => {
    const [erasure] = await tx.run(lockErasure, [erasureId, workspaceId])
    if (!erasure || erasure.command_id !== ref.commandId) return refuseAbsent()
    if (erasure.outcome === 'erased') return accept(erasure)
    if (erasure.subject_id === null) return refuse('row.conflict', 'This erasure was dropped.')
    const subject = { subject_type: erasure.subject_type, subject_id: erasure.subject_id }
    const lineage = await lockLineage(tx, workspaceId, subject)
    const free = decideErasure(await listStandingHolds(tx, lineage))
    if (!free.ok) return free
    const items: KnownItem[] = []
    // Memory goes last: it holds the lineage by which the others find what is theirs.
    for (const room of deps.forgettables.toReversed()) {
      const emptied = await room.erase(tx, lineage, { ...act, erasureId })
      if (!emptied.ok) return emptied
      items.push(...emptied.value)
    }
    const { document, hash } = writeCertificate({ erasureId, subjectDigest: erasure.subject_digest, items, at: act.at })
    const [closed] = await tx.run(closeErasure, [erasureId, workspaceId, 'erased', act.at, document, hash])
    if (!closed) return refuseAbsent()
    await tellMemory(tx, deps.newId, act, [
      {
        type: 'memory_erased',
        workspaceId,
        target: 'memory_erasure',
        targetId: erasureId,
        payload: { certificate_hash: hash, counts: document['counts'] ?? {} },
        links: { command_id: erasure.command_id },
      },
    ])
    return accept(closed)
  })
}

/** The command ended without erasing: whom it was about is nobody's business any more. */
export async function dropErasure(tx: Sql, { workspaceId, erasureId }: ErasureRef, at: Date): Promise<void> {
  await tx.run(closeErasure, [erasureId, workspaceId, 'dropped', at, null, null])
}
