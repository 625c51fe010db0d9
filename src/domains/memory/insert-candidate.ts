/** A proposal becomes a candidate, in the transaction that opens its command. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import { eventIdOf, statement, type Tx } from '#store'
import type { CheckedMemory } from './check-proposal.ts'
import { hasConsent } from './consent.ts'
import { lacksConsent, sayConsentMissing } from './decide-memory-write.ts'
import { type Act, type MemoryFact, tellMemory } from './events.ts'
import { shareSubjects, subjectsOf } from './hold.ts'
import { candidateColumns, type StoredCandidate } from './memory-row.ts'
import type { MemoryDeps } from './deps.ts'

/** The same key gives the same candidate, so that a repeated request meets its own. */
export function candidateIdOf(workspaceId: string, key: string): string {
  return eventIdOf('memory_candidate', workspaceId, key)
}

export type NewCandidate = {
  readonly workspaceId: string
  readonly candidateId: string
  readonly commandId: string
  readonly memory: CheckedMemory
  readonly agent?: { readonly agentRunId: string; readonly stepIndex?: number | undefined } | undefined
}

const insertSql = statement<StoredCandidate>(
  'memory_insert_candidate',
  `insert into concord.memory_candidates (memory_candidate_id, workspace_id, command_id, agent_run_id, subject_type, subject_id, scope,
  memory_type, content, confidence, expires_at, created_by, sensitivity, status, created_at, fact_key, schema_name, task_type, connector,
  derived_from, supersedes)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'proposed', $14, $15, $16, $17, $18, $19, $20)
returning ${candidateColumns}`,
)

export async function insertCandidate(
  tx: Tx,
  { newId, store, schemas }: Pick<MemoryDeps, 'newId' | 'store' | 'schemas'>,
  act: Act,
  { workspaceId, candidateId, commandId, memory, agent }: NewCandidate,
): Promise<Decision<StoredCandidate>> {
  // In this order: whoever erases the subject, or one of those it was made from, has finished or waits for us.
  await shareSubjects(tx, workspaceId, [
    memory,
    ...(await subjectsOf(store.within?.(tx) ?? store, workspaceId, memory)),
  ])
  const named = [...new Set([...memory.derived_from, ...(memory.supersedes === null ? [] : [memory.supersedes])])]
  const kept = store.within?.(tx) ?? store
  const found = await Promise.all(named.map((memoryId) => kept.get({ workspaceId, memoryId })))
  if (found.some((source) => source === undefined || source.status === 'deleted'))
    return refuse('memory.source.not_found', 'A memory that it names is not there.', { path: 'derived_from' })
  const m = memory
  const schema = m.schema_name === null ? null : (schemas.find(m.schema_name) ?? null)
  // At the door: what may not be kept is not stored as a candidate either.
  if (schema && lacksConsent({ schema, has_consent: await hasConsent(tx, workspaceId, m, act.at) }))
    return refuse('memory.consent.missing', sayConsentMissing(schema), {
      path: 'schema_name',
      hint: `Have it recorded first: concord memory consent grant --subject <kind:id> --type ${m.memory_type} --scope ${m.scope}`,
    })
  const who = [workspaceId, commandId, agent?.agentRunId ?? null, m.subject_type, m.subject_id, m.scope, m.memory_type]
  const what = [m.content, m.confidence, m.expires_at, act.actor, m.sensitivity, act.at, m.fact_key]
  const ways = [m.schema_name, m.task_type, m.connector, m.derived_from, m.supersedes]
  const [row] = await tx.run(insertSql, [candidateId, ...who, ...what, ...ways])
  if (!row) return refuse('memory.candidate.not_found', 'The candidate could not be stored.')
  const links = { command_id: commandId, ...(agent ? { agent_run_id: agent.agentRunId } : {}) }
  const about = { workspaceId, target: 'memory_candidate', targetId: candidateId }
  const payload = { memory_type: m.memory_type, scope: m.scope, sensitivity: m.sensitivity }
  const facts: MemoryFact[] = [{ ...about, type: 'memory_candidate_created', payload, links }]
  if (agent?.stepIndex !== undefined)
    facts.push({
      ...about,
      type: 'propose_memory',
      payload: { action_type: 'propose_memory', created_command_id: commandId },
      links: { ...links, step_index: agent.stepIndex },
    })
  await tellMemory(tx, newId, act, facts)
  return accept(row)
}
