/** Judges a candidate for policy, and binds the judgement to its row: what waits for a person, and which record a yes would replace. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Tx } from '#store'
import { hasConsent } from './consent.ts'
import {
  decideMemoryWrite,
  type MemoryWriteDecision,
  type MemoryWriteFacts,
  sayContradicted,
} from './decide-memory-write.ts'
import type { MemoryDeps } from './deps.ts'
import type { Act } from './events.ts'
import { isSameContent } from './memory-content.ts'
import { lockCandidate, saveCandidate, type StoredCandidate } from './memory-repository.ts'

/** What policy is told, and what stands in its record: never content, never the subject. */
export type Assessment = {
  readonly decision: MemoryWriteDecision['t']
  readonly reasons: readonly string[]
  readonly sensitivity: string
  readonly memory_consent: boolean
  readonly conflicts_with: string | null
}

export type CandidateRef = { readonly workspaceId: string; readonly candidateId: string }

export const refuseNoCandidate = () => refuse('memory.candidate.not_found', 'There is no such candidate.')

export async function gatherWriteFacts(
  deps: Pick<MemoryDeps, 'schemas' | 'store'>,
  tx: Tx,
  candidate: StoredCandidate,
  at: Date,
): Promise<MemoryWriteFacts> {
  const rival = await (deps.store.within?.(tx) ?? deps.store).findFact(candidate)
  const isOver = rival?.expires_at != null && rival.expires_at <= at
  const { memory_type, scope, subject_type, sensitivity, confidence, expires_at, supersedes, schema_name } = candidate
  return {
    memory_type,
    scope,
    subject_type,
    sensitivity,
    confidence,
    expires_at,
    // Checked when it was proposed; the row has the end itself.
    is_temporary: false,
    by_agent: candidate.agent_run_id !== null,
    has_consent: await hasConsent(tx, candidate.workspace_id, candidate, at),
    conflict:
      rival && !isOver
        ? {
            memory_id: rival.memory_id,
            is_same: isSameContent(rival.content, candidate.content),
            confidence: rival.confidence,
          }
        : null,
    supersedes,
    schema: schema_name === null ? null : (deps.schemas.find(schema_name) ?? null),
    at,
  }
}

export function assessCandidate(
  deps: Pick<MemoryDeps, 'db' | 'newId' | 'schemas' | 'store'>,
  act: Act,
  { workspaceId, candidateId }: CandidateRef,
): Promise<Decision<Assessment>> {
  return deps.db.transaction(async (tx) => {
    const candidate = await lockCandidate(tx, workspaceId, candidateId)
    if (!candidate) return refuseNoCandidate()
    const facts = await gatherWriteFacts(deps, tx, candidate, act.at)
    const decision = onceAsked(candidate, facts, decideMemoryWrite(facts))
    if (candidate.status === 'proposed') await bind(tx, deps, act, candidate, facts, decision)
    const reasons = decision.t === 'ask' ? decision.reasons : decision.t === 'reject' ? [decision.reason] : []
    return accept({
      decision: decision.t,
      reasons,
      sensitivity: facts.sensitivity,
      memory_consent: facts.has_consent,
      conflicts_with: facts.conflict?.memory_id ?? null,
    })
  })
}

/** What was put to a person stays a question: a candidate that waits is only ever written after a yes. Pure. */
function onceAsked(
  { status }: StoredCandidate,
  { conflict }: Pick<MemoryWriteFacts, 'conflict'>,
  decision: MemoryWriteDecision,
): MemoryWriteDecision {
  if (status !== 'awaiting_approval' || decision.t === 'ask' || decision.t === 'reject') return decision
  return { t: 'ask', reasons: [conflict === null ? 'It was put to a person before.' : sayContradicted(conflict)] }
}

async function bind(
  tx: Tx,
  { newId }: Pick<MemoryDeps, 'newId'>,
  act: Act,
  candidate: StoredCandidate,
  { conflict }: MemoryWriteFacts,
  decision: MemoryWriteDecision,
): Promise<void> {
  if (decision.t === 'ask') {
    // A yes is a yes to replacing exactly this record, and no other that comes later.
    const set = { supersedes: conflict?.memory_id ?? null }
    await saveCandidate(tx, candidate, 'awaiting_approval', { act, newId, set, payload: { reasons: decision.reasons } })
  } else if (decision.t === 'reject') {
    await saveCandidate(tx, candidate, 'rejected', { act, newId, payload: { reason: decision.reason } })
  }
}
