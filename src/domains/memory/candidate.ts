/** What may be proposed at all: checked and filled in before anything is stored. Pure. */
import type { JsonObject } from '#kernel/json-value'
import type { MemoryCandidateState } from '#kernel/machines/memory'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { eventIdOf, type Sql, statement, type Tx } from '#store'
import { type CandidateRef, refuseNoCandidate } from './assess-candidate.ts'
import { hasConsent, listConsents } from './consent.ts'
import { lacksConsent, sayConsentMissing } from './decide-memory-write.ts'
import type { MemoryDeps } from './deps.ts'
import { type Act, type MemoryFact, tellMemory } from './events.ts'
import { shareSubjects, subjectsOf } from './hold.ts'
import { classifyContent, type ContentClass, factKeyOf, isSameContent } from './memory-content.ts'
import {
  candidateColumns,
  findCandidate,
  type MemoryContent,
  type MemoryScope,
  type MemorySensitivity,
  type MemoryType,
  type StoredCandidate,
  type StoredConsent,
  type Subject,
} from './memory-repository.ts'
import type { MemorySchema, MemorySchemas } from './memory-schema.ts'

export type ProposedMemory = Subject & {
  readonly scope: MemoryScope
  readonly memory_type: MemoryType
  readonly content: JsonObject
  readonly confidence?: number | undefined
  readonly expires_at?: Date | undefined
  readonly temporary?: boolean | undefined
  readonly fact_key?: string | undefined
  readonly sensitivity?: MemorySensitivity | undefined
  readonly schema_name?: string | undefined
  readonly task_type?: string | undefined
  readonly connector?: string | undefined
  readonly derived_from?: readonly string[] | undefined
  readonly supersedes?: string | undefined
}

/** A proposal that may be stored, with everything that was left open filled in. */
export type CheckedMemory = Omit<MemoryContent, 'created_by'> & Pick<StoredCandidate, 'derived_from' | 'supersedes'>

const DAY_MS = 86_400_000

export function checkProposal(schemas: MemorySchemas, proposed: ProposedMemory, at: Date): Decision<CheckedMemory> {
  const { content, schema_name: name, expires_at: asked, temporary } = proposed
  if (Object.keys(content).length === 0)
    return refuse('memory.content.empty', 'There is nothing to remember.', { path: 'content' })
  const schema = name === undefined ? undefined : schemas.find(name)
  if (name !== undefined && !schema) {
    const hint = schemas.names.length > 0 ? `There are ${schemas.names.join(', ')}.` : 'This installation has none.'
    return refuse('memory.schema.unknown', 'There is no such memory schema.', { path: 'schema_name', hint })
  }
  const expiresAt = endOf(schema, asked, at)
  if (temporary === true && expiresAt === null)
    return refuse('memory.expiry.missing', 'A temporary memory needs an end.', { path: 'expires_at' })
  if (expiresAt !== null && expiresAt <= at)
    return refuse('memory.expiry.past', 'It would have ended already.', { path: 'expires_at' })
  const found = classifyContent(content, proposed.sensitivity ?? schema?.sensitivity)
  if (isSecret(found.class)) {
    const secret = found.findings.find((each) => each.class === 'secret')
    return refuse('memory.content.secret', 'A secret is not remembered.', {
      path: `content.${secret?.path ?? ''}`,
      hint: 'Remember where it is kept, such as vault://team/name.',
    })
  }
  return accept({
    subject_type: proposed.subject_type,
    subject_id: proposed.subject_id,
    scope: proposed.scope,
    memory_type: proposed.memory_type,
    content,
    confidence: proposed.confidence ?? null,
    expires_at: expiresAt,
    fact_key: factKeyOf(proposed.fact_key, content),
    sensitivity: found.class,
    schema_name: name ?? null,
    task_type: proposed.task_type ?? null,
    connector: proposed.connector ?? null,
    derived_from: [...new Set(proposed.derived_from ?? [])],
    supersedes: proposed.supersedes ?? null,
  })
}

const isSecret = (found: ContentClass): found is 'secret' => found === 'secret'

/** The earlier of what was asked and what the schema allows at most. */
function endOf(schema: MemorySchema | undefined, asked: Date | undefined, at: Date): Date | null {
  const days = schema?.expiration.after_days ?? null
  const latest = days === null ? undefined : new Date(at.getTime() + days * DAY_MS)
  if (asked && latest) return asked < latest ? asked : latest
  return asked ?? latest ?? null
}

/** A repeated key with another content is another request. */
export function isSameProposal(stored: StoredCandidate, memory: CheckedMemory): boolean {
  const parts = [
    'subject_type',
    'subject_id',
    'scope',
    'memory_type',
    'fact_key',
    'schema_name',
    'task_type',
    'connector',
  ] as const
  return parts.every((part) => stored[part] === memory[part]) && isSameContent(stored.content, memory.content)
}

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
  // In this order: an erasure of the subject, or of a source, has finished or waits for this write.
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

/** What was proposed for memory, and one proposal with the consents that stand for it. */
export type CandidatePage = { readonly items: readonly StoredCandidate[]; readonly next: readonly string[] | undefined }

const listSql = statement<StoredCandidate>(
  'memory_list_candidates',
  `select ${candidateColumns} from concord.memory_candidates
where workspace_id = $1 and ($2::text[] is null or status = any ($2))
  and ($6::text is null or scope <> 'user' or subject_type <> 'user' or subject_id = $6 or created_by = 'user:' || $6) and ($3::timestamptz is null or (created_at, memory_candidate_id) < ($3, $4))
order by created_at desc, memory_candidate_id desc limit $5`,
)

export async function listCandidates(
  sql: Sql,
  input: {
    readonly workspaceId: string
    readonly status?: readonly MemoryCandidateState[] | undefined
    readonly after?: readonly string[] | undefined
    /** A user who sees of others' own matters only what that user proposed. */
    readonly viewer?: string | undefined
    readonly limit: number
  },
): Promise<CandidatePage> {
  const [at = null, id = null] = input.after ?? []
  const rows = await sql.run(listSql, [
    input.workspaceId,
    input.status ?? null,
    at,
    id,
    input.limit + 1,
    input.viewer ?? null,
  ])
  const items = rows.slice(0, input.limit)
  const last = rows.length > input.limit ? items.at(-1) : undefined
  return { items, next: last && [last.created_at.toISOString(), last.memory_candidate_id] }
}

export type ShownCandidate = { readonly candidate: StoredCandidate; readonly consents: readonly StoredConsent[] }

const CONSENTS_MAX = 50

/** A candidate is shown together with what its subject agreed to, standing or taken back. */
export async function getCandidate(
  sql: Sql,
  { workspaceId, candidateId, viewer }: CandidateRef & { readonly viewer?: string | undefined },
): Promise<Decision<ShownCandidate>> {
  const candidate = await findCandidate(sql, workspaceId, candidateId)
  if (!candidate || !isShown(candidate, viewer)) return refuseNoCandidate()
  const consents = await listConsents(sql, { workspaceId, subject: candidate, viewer: undefined, limit: CONSENTS_MAX })
  const { memory_type, scope } = candidate
  return accept({
    candidate,
    consents: consents.filter((each) => each.memory_type === memory_type && each.scope === scope),
  })
}

function isShown(
  { scope, subject_type, subject_id, created_by }: StoredCandidate,
  viewer: string | undefined,
): boolean {
  const isPrivate = scope === 'user' && subject_type === 'user'
  return !isPrivate || viewer === undefined || subject_id === viewer || created_by === `user:${viewer}`
}
