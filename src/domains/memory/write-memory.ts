/** Assesses a candidate for policy, writes it as a record in the transaction that records the outcome of its effect, and undoes that. */
import type { Actor } from '#kernel/actor'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { type Sql, statement, type Tx } from '#store'
import { type CandidateRef, findCandidate, lockCandidate, refuseNoCandidate, saveCandidate } from './candidate.ts'
import { hasConsent } from './consent.ts'
import {
  decideMemoryWrite,
  type MemoryWriteDecision,
  type MemoryWriteFacts,
  sayContradicted,
} from './decide-memory-write.ts'
import type { MemoryDeps } from './deps.ts'
import { shareSubjects } from './hold.ts'
import { isSameContent } from './memory-content.ts'
import { records, type StoredCandidate } from './memory-record.ts'
import { embed, type Embedding, type MemoryStore, textOf } from './memory-store.ts'

async function gatherWriteFacts(
  { schemas }: MemoryDeps,
  sql: Sql,
  store: MemoryStore,
  candidate: StoredCandidate,
  at: Date,
): Promise<MemoryWriteFacts> {
  const rival = await store.findFact(candidate)
  const isOver = rival?.expires_at != null && rival.expires_at <= at
  const { memory_type, scope, subject_type, sensitivity, confidence, expires_at, supersedes, schema_name } = candidate
  return {
    memory_type,
    scope,
    subject_type,
    sensitivity,
    confidence,
    expires_at,
    by_agent: candidate.agent_run_id !== null,
    has_consent: await hasConsent(sql, candidate.workspace_id, candidate, at),
    conflict:
      rival && !isOver
        ? {
            memory_id: rival.memory_id,
            is_same: isSameContent(rival.content, candidate.content),
            confidence: rival.confidence,
          }
        : null,
    supersedes,
    schema: schema_name === null ? null : (schemas.find(schema_name) ?? null),
    at,
  }
}

/** What policy sees and records: never content, never the subject. */
export type Assessment = {
  readonly decision: MemoryWriteDecision['t']
  readonly reasons: readonly string[]
  readonly sensitivity: string
  readonly memory_consent: boolean
  readonly conflicts_with: string | null
}

/** Decides about a candidate and saves on its row that it waits for a person, and which record an approval would replace. */
export function assessCandidate(deps: MemoryDeps, actor: Actor, ref: CandidateRef): Promise<Decision<Assessment>> {
  return deps.db.transaction(async (tx) => {
    const candidate = await lockCandidate(tx, ref)
    if (!candidate) return refuseNoCandidate()
    const at = deps.now()
    const facts = await gatherWriteFacts(deps, tx, deps.store.within?.(tx) ?? deps.store, candidate, at)
    const decision = onceAsked(candidate, facts, decideMemoryWrite(facts))
    const when = { at, newId: deps.newId }
    if (candidate.status === 'proposed' && decision.t === 'ask') {
      // An approval allows replacing exactly this record, and none that is written later.
      const set = { supersedes: facts.conflict?.memory_id ?? null }
      const payload = { reasons: decision.reasons }
      await saveCandidate(tx, candidate, 'awaiting_approval', actor, { ...when, set, payload })
    } else if (candidate.status === 'proposed' && decision.t === 'reject') {
      await saveCandidate(tx, candidate, 'rejected', actor, { ...when, payload: { reason: decision.reason } })
    }
    return accept({
      decision: decision.t,
      reasons: decision.t === 'ask' ? decision.reasons : decision.t === 'reject' ? [decision.reason] : [],
      sensitivity: facts.sensitivity,
      memory_consent: facts.has_consent,
      conflicts_with: facts.conflict?.memory_id ?? null,
    })
  })
}

/** A candidate that waits for a person is written only after an approval, even when the reasons no longer apply. Pure. */
function onceAsked(
  { status }: StoredCandidate,
  { conflict }: Pick<MemoryWriteFacts, 'conflict'>,
  decision: MemoryWriteDecision,
): MemoryWriteDecision {
  if (status !== 'awaiting_approval' || decision.t === 'ask' || decision.t === 'reject') return decision
  return { t: 'ask', reasons: [conflict === null ? 'A person was asked before.' : sayContradicted(conflict)] }
}

export type Written = { readonly memory_id: string; readonly memory_candidate_id: string; readonly is_new: boolean }

/** What the effect will write, decided before the transaction that records its outcome. */
export type PreparedWrite = {
  readonly candidate: StoredCandidate
  readonly embedding: Embedding | undefined
  readonly written: Written
}

/** Decides what the effect will write. A refusal rejects the candidate, so that a repeated command cannot write it after all. */
export async function prepareWrite(
  deps: MemoryDeps,
  actor: Actor,
  { commandId, ...ref }: CandidateRef & { readonly commandId: string },
): Promise<Decision<PreparedWrite>> {
  const candidate = await findCandidate(deps.db, ref.workspaceId, ref.candidateId)
  if (candidate?.command_id !== commandId) return refuseNoCandidate()
  if (candidate.memory_id !== null)
    return accept({ candidate, embedding: undefined, written: written(candidate, candidate.memory_id, false) })
  if (!isOpen(candidate)) return refuseDecided(candidate)
  const course = await decideCourse(deps, deps.db, deps.store, candidate, deps.now())
  if (!course.ok) return reject(deps, actor, ref, course)
  if (course.value.t === 'known')
    return accept({ candidate, embedding: undefined, written: written(candidate, course.value.memory_id, false) })
  // Before the transaction: an embedder may be a remote call.
  const embedding = await embed(deps.embedder, textOf(candidate.content))
  return accept({ candidate, embedding, written: written(candidate, candidate.memory_candidate_id, true) })
}

function reject({ db, now, newId }: MemoryDeps, actor: Actor, ref: CandidateRef, refusal: Refusal): Promise<Refusal> {
  return db.transaction(async (tx) => {
    const candidate = await lockCandidate(tx, ref)
    if (!candidate || !isOpen(candidate)) return refusal
    await saveCandidate(tx, candidate, 'rejected', actor, { at: now(), newId, payload: { reason: refusal.reason } })
    return tx.commitRefusal(refusal)
  })
}

/**
 * Writes a prepared memory in the transaction that records the outcome of its effect. It decides again under locks, and refuses if the
 * decision has changed since `prepareWrite`: the caller rolls back and prepares again.
 */
export async function writeMemory(
  tx: Tx,
  deps: MemoryDeps,
  actor: Actor,
  { candidate: seen, embedding, written: expected }: PreparedWrite,
): Promise<Decision<Written>> {
  const { workspace_id: workspaceId, memory_candidate_id: candidateId } = seen
  const store = deps.store.within?.(tx) ?? deps.store
  await shareSubjects(tx, store, workspaceId, seen)
  const candidate = await lockCandidate(tx, { workspaceId, candidateId })
  if (!candidate) return refuseNoCandidate()
  if (candidate.memory_id !== null) return accept(written(candidate, candidate.memory_id, false))
  if (!isOpen(candidate)) return refuseDecided(candidate)
  const at = deps.now()
  const course = await decideCourse(deps, tx, store, candidate, at)
  if (!course.ok) return course
  const { memory_id } = expected
  if (course.value.t === 'known' ? course.value.memory_id !== memory_id : !expected.is_new)
    return refuse('row.conflict', 'The memories of this fact have changed.')
  if (course.value.t === 'known') await tx.run(confirmRecord, [memory_id, workspaceId, at])
  else {
    // The record has the id of its candidate, so that a repeated effect finds its own row in every store.
    const { supersedes } = course.value
    const inserted = await store.insert({ ...contentOf(candidate), memory_id, supersedes, embedding }, actor, at)
    if (!inserted.ok) return inserted
    const payload = { memory_type: candidate.memory_type, scope: candidate.scope, store: deps.store.name }
    await records.append(tx, inserted.value, actor, { type: 'memory_written', at, newId: deps.newId, payload })
  }
  await saveCandidate(tx, candidate, 'accepted', actor, { at, newId: deps.newId, set: { memory_id } })
  return accept(expected)
}

function isOpen({ status }: StoredCandidate): boolean {
  return status === 'proposed' || status === 'awaiting_approval'
}

function refuseDecided({ status }: StoredCandidate): Refusal {
  return refuse('memory.candidate.decided', `The candidate is already ${status}.`)
}

async function decideCourse(
  deps: MemoryDeps,
  sql: Sql,
  store: MemoryStore,
  candidate: StoredCandidate,
  at: Date,
): Promise<Decision<Course>> {
  const facts = await gatherWriteFacts(deps, sql, store, candidate, at)
  return decideEffect(candidate, facts, decideMemoryWrite(facts))
}

/** The fields that a record takes from its candidate: nothing about policy reaches a store. */
function contentOf(candidate: StoredCandidate) {
  const { status: _status, approval_id: _approval, agent_run_id: _run, decided_at: _decided, ...rest } = candidate
  const { created_at: _created, erased_at: _erased, ...content } = rest
  return content
}

/** A confirmed record does not become stale. */
const confirmRecord = statement<never>(
  'memory_confirm_record',
  `update concord.memory_records set updated_at = greatest(updated_at, $3) where memory_id = $1 and workspace_id = $2 and status = 'active'`,
)

type Course = Extract<MemoryWriteDecision, { t: 'write' | 'known' }>

/** Decides again after the approval, since consents and records may have changed since then. Pure. */
function decideEffect(
  { status }: Pick<StoredCandidate, 'status'>,
  { conflict, supersedes, has_consent }: Pick<MemoryWriteFacts, 'conflict' | 'supersedes' | 'has_consent'>,
  decision: MemoryWriteDecision,
): Decision<Course> {
  if (decision.t === 'write' || decision.t === 'known') return accept(decision)
  if (decision.t === 'reject') return refuse(decision.code, decision.reason)
  if (conflict !== null && conflict.memory_id !== supersedes)
    return refuse('memory.fact.conflict', 'Another memory of the same fact was written first.', {
      hint: 'Read it and propose again.',
      facts: { memory_id: conflict.memory_id },
    })
  // A waiting candidate gets here only after an approval.
  if (status === 'awaiting_approval') return accept({ t: 'write', supersedes: conflict?.memory_id ?? null })
  return has_consent
    ? refuse('memory.candidate.decided', `It now needs an approval: ${decision.reasons.join(' ')}`)
    : refuse('memory.consent.missing', 'The consent of its subject was revoked in the meantime.')
}

function written(candidate: StoredCandidate, memoryId: string, isNew: boolean): Written {
  return { memory_id: memoryId, memory_candidate_id: candidate.memory_candidate_id, is_new: isNew }
}

/** Deletes the record that this candidate wrote. A record that existed before it stays. */
export async function unwriteMemory(
  { db, store, now }: MemoryDeps,
  actor: Actor,
  { workspaceId, candidateId }: CandidateRef,
): Promise<Decision<{ readonly memory_id: string | null }>> {
  const candidate = await findCandidate(db, workspaceId, candidateId)
  if (!candidate) return refuseNoCandidate()
  if (candidate.memory_id !== candidateId) return accept({ memory_id: null })
  const gone = await store.delete({ workspaceId, memoryId: candidateId }, actor, now())
  if (!gone.ok && gone.code !== 'machine.move.illegal') return gone
  return accept({ memory_id: candidateId })
}
