/** The effect of a memory command: the candidate becomes a record, once, in one transaction with its events; and its undo. */
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { statement, type Tx } from '#store'
import { type CandidateRef, gatherWriteFacts, refuseNoCandidate } from './assess-candidate.ts'
import { decideMemoryWrite, type MemoryWriteDecision, type MemoryWriteFacts } from './decide-memory-write.ts'
import type { MemoryDeps } from './deps.ts'
import { type Act, tellMemory } from './events.ts'
import { shareSubjects, subjectsOf } from './hold.ts'
import { findCandidate, lockCandidate, saveCandidate, type StoredCandidate } from './memory-repository.ts'
import { embed, type Embedding, type MemoryStore, type NewMemory, textOf } from './memory-store.ts'

export type Written = { readonly memory_id: string; readonly memory_candidate_id: string; readonly is_new: boolean }

export type WriteMemory = CandidateRef & { readonly commandId: string }

/** A refusal leaves the candidate rejected: the command that asked cannot be repeated into a yes. */
export async function writeMemory(deps: MemoryDeps, act: Act, input: WriteMemory): Promise<Decision<Written>> {
  const seen = await findCandidate(deps.db, input.workspaceId, input.candidateId)
  if (!seen || seen.command_id !== input.commandId) return refuseNoCandidate()
  // Outside the transaction: an embedder is a call to somewhere else.
  const embedding = seen.status === 'accepted' ? undefined : await embed(deps.embedder, textOf(seen.content))
  return deps.db.transaction(async (tx) => {
    const store = deps.store.within?.(tx) ?? deps.store
    await shareSubjects(tx, input.workspaceId, [seen, ...(await subjectsOf(store, input.workspaceId, seen))])
    const candidate = await lockCandidate(tx, input.workspaceId, input.candidateId)
    if (!candidate) return refuseNoCandidate()
    if (candidate.memory_id !== null) return accept(written(candidate, candidate.memory_id, false))
    if (candidate.status !== 'proposed' && candidate.status !== 'awaiting_approval') return refuseDecided(candidate)
    const made = await decideAndInsert(deps, tx, store, act, candidate, embedding)
    if (!made.ok) {
      await saveCandidate(tx, candidate, 'rejected', { act, newId: deps.newId, payload: { reason: made.reason } })
      return tx.commitRefusal(made)
    }
    const { memory_id, is_new } = made.value
    await saveCandidate(tx, candidate, 'accepted', { act, newId: deps.newId, set: { memory_id } })
    if (is_new) {
      await tellMemory(tx, deps.newId, act, [
        {
          type: 'memory_written',
          workspaceId: input.workspaceId,
          target: 'memory',
          targetId: memory_id,
          payload: { memory_type: candidate.memory_type, scope: candidate.scope, store: deps.store.name },
          links: { command_id: candidate.command_id },
        },
      ])
    }
    return made
  })
}

async function decideAndInsert(
  deps: MemoryDeps,
  tx: Tx,
  store: MemoryStore,
  act: Act,
  candidate: StoredCandidate,
  embedding: Embedding | undefined,
): Promise<Decision<Written>> {
  const facts = await gatherWriteFacts(deps, tx, candidate, act.at)
  const course = decideEffect(candidate, facts, decideMemoryWrite(facts))
  if (!course.ok) return course
  if (course.value.t === 'known') {
    await tx.run(confirmRecord, [course.value.memory_id, candidate.workspace_id, act.at])
    return accept(written(candidate, course.value.memory_id, false))
  }
  const inserted = await store.insert(memoryOf(candidate, course.value.supersedes, embedding), act)
  return inserted.ok ? accept(written(candidate, inserted.value.memory_id, true)) : inserted
}

/** Said again is said anew: what is confirmed does not grow stale. */
const confirmRecord = statement<never>(
  'memory_confirm_record',
  `update concord.memory_records set updated_at = greatest(updated_at, $3) where memory_id = $1 and workspace_id = $2 and status = 'active'`,
)

type Course = Extract<MemoryWriteDecision, { t: 'write' | 'known' }>

/** What policy allowed is looked at once more, since consents and records may have changed. Pure. */
function decideEffect(
  { status }: Pick<StoredCandidate, 'status'>,
  { conflict, supersedes, has_consent }: Pick<MemoryWriteFacts, 'conflict' | 'supersedes' | 'has_consent'>,
  decision: MemoryWriteDecision,
): Decision<Course> {
  switch (decision.t) {
    case 'write':
    case 'known':
      return accept(decision)
    case 'reject':
      return refuse(decision.code, decision.reason)
    case 'ask': {
      if (conflict !== null && conflict.memory_id !== supersedes) {
        return refuse('memory.fact.conflict', 'Another memory about the same thing came first.', {
          hint: 'Look at it and propose again.',
          facts: { memory_id: conflict.memory_id },
        })
      }
      // A candidate that waits gets here only after a person said yes.
      if (status === 'awaiting_approval')
        return accept({ t: 'write', supersedes: conflict === null ? null : conflict.memory_id })
      return has_consent
        ? refuse(
            'memory.candidate.decided',
            `It can no longer be written without a question: ${decision.reasons.join(' ')}`,
          )
        : refuse('memory.consent.missing', 'The consent of its subject was taken back meanwhile.')
    }
  }
}

/** The candidate's id is the record's: the same effect again meets its own row, in every store. */
function memoryOf(candidate: StoredCandidate, supersedes: string | null, embedding: Embedding | undefined): NewMemory {
  const { memory_candidate_id, workspace_id, command_id, derived_from } = candidate
  const { subject_type, subject_id, scope, memory_type, content, confidence, expires_at, created_by } = candidate
  const { fact_key, sensitivity, schema_name, task_type, connector } = candidate
  return {
    memory_id: memory_candidate_id,
    workspace_id,
    command_id,
    memory_candidate_id,
    derived_from,
    supersedes,
    embedding,
    subject_type,
    subject_id,
    scope,
    memory_type,
    content,
    confidence,
    expires_at,
    created_by,
    fact_key,
    sensitivity,
    schema_name,
    task_type,
    connector,
  }
}

function written(candidate: StoredCandidate, memoryId: string, isNew: boolean): Written {
  return { memory_id: memoryId, memory_candidate_id: candidate.memory_candidate_id, is_new: isNew }
}

function refuseDecided({ status }: StoredCandidate): Refusal {
  return refuse('memory.candidate.decided', `The candidate is ${status} already.`)
}

/** Takes back what this candidate wrote; a record that was there before it stays. */
export async function unwriteMemory(
  deps: MemoryDeps,
  act: Act,
  { workspaceId, candidateId }: CandidateRef,
): Promise<Decision<{ readonly memory_id: string | null }>> {
  const candidate = await findCandidate(deps.db, workspaceId, candidateId)
  if (!candidate) return refuseNoCandidate()
  const isOwn = candidate.memory_id === candidate.memory_candidate_id
  if (!isOwn) return accept({ memory_id: null })
  const gone = await deps.store.delete({ workspaceId, memoryId: candidate.memory_candidate_id }, act)
  if (!gone.ok && gone.code !== 'machine.move.illegal') return gone
  return accept({ memory_id: candidate.memory_id })
}
