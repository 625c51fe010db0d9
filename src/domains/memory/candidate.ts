/** A memory candidate: what was proposed for memory, until it is written or refused. */
import type { Actor } from '#kernel/actor'
import { memoryCandidateMachine, type MemoryCandidateState } from '#kernel/machines/memory'
import { accept, type Decision, refuse } from '#kernel/refusal'
import {
  cutPage,
  defineTable,
  eventIdOf,
  type Paged,
  pageText,
  type Sql,
  statement,
  type TransitionResult,
  type Tx,
} from '#store'
import { hasConsent, listConsents, viewerOf } from './consent.ts'
import type { ProposedMemory } from './contract.ts'
import { lacksConsent, sayConsentMissing } from './decide-memory-write.ts'
import type { MemoryDeps } from './deps.ts'
import { appendMemoryEvent, memoryLog } from './events.ts'
import { shareSubjects } from './hold.ts'
import { classifyContent, factKeyOf, isSameContent } from './memory-content.ts'
import { exact, type Moving, type StoredCandidate, type StoredConsent } from './memory-record.ts'
import type { MemorySchema, MemorySchemas } from './memory-schema.ts'

export const candidateColumns = `memory_candidate_id, workspace_id, command_id, agent_run_id, subject_type, subject_id, scope, memory_type,
  content, confidence::float8 as confidence, expires_at, created_by, sensitivity, status, approval_id, memory_id, created_at, decided_at,
  fact_key, schema_name, task_type, connector, derived_from, supersedes, erased_at, labels`

const candidates = defineTable<StoredCandidate>()({
  name: 'concord.memory_candidates',
  noun: 'memory_candidate',
  machine: memoryCandidateMachine,
  id: 'memory_candidate_id',
  tenant: 'workspace_id',
  state: 'status',
  settable: {
    approval_id: 'uuid',
    memory_id: 'uuid',
    supersedes: 'uuid',
    content: 'jsonb',
    fact_key: 'text',
    subject_id: 'text',
    erased_at: 'timestamptz',
  },
  log: memoryLog,
  links: ['workspace_id', 'command_id', 'agent_run_id'],
})

export type CandidateRef = { readonly workspaceId: string; readonly candidateId: string }

export const refuseNoCandidate = () => refuse('memory.candidate.not_found', 'There is no such candidate.')

const findSql = `select ${candidateColumns} from concord.memory_candidates where memory_candidate_id = $1 and workspace_id = $2`
const findCandidateSql = statement<StoredCandidate>('memory_find_candidate', findSql)
const lockCandidateSql = statement<StoredCandidate>('memory_lock_candidate', `${findSql} for update`)

export async function findCandidate(
  sql: Sql,
  workspaceId: string,
  candidateId: string,
): Promise<StoredCandidate | undefined> {
  const [row] = await sql.run(findCandidateSql, [candidateId, workspaceId])
  return row
}

export async function lockCandidate(tx: Tx, ref: CandidateRef): Promise<StoredCandidate | undefined> {
  const [row] = await tx.run(lockCandidateSql, [ref.candidateId, ref.workspaceId])
  return row
}

/** Only Concord itself moves a candidate: by policy, by the effect, or when its command ends. */
export async function saveCandidate(
  tx: Tx,
  candidate: StoredCandidate,
  to: MemoryCandidateState,
  { id, traceId }: Actor,
  { at, newId, set = {}, payload = {} }: Moving,
): Promise<TransitionResult<StoredCandidate>> {
  const actor = { id, kind: 'system', traceId } as const
  return exact(await candidates.transition(tx, candidate, to, actor, { at, newId, set, payload }))
}

/** A proposal that may be stored, with every omitted field filled in. */
export type CheckedMemory = Omit<
  StoredCandidate,
  | 'memory_candidate_id'
  | 'workspace_id'
  | 'command_id'
  | 'agent_run_id'
  | 'created_by'
  | 'created_at'
  | 'status'
  | 'approval_id'
  | 'memory_id'
  | 'decided_at'
  | 'erased_at'
  | 'labels'
>

const DAY_MS = 86_400_000

/** Checks a proposal and fills it in before anything is stored. Pure. */
export function checkProposal(schemas: MemorySchemas, proposed: ProposedMemory, at: Date): Decision<CheckedMemory> {
  const { content, schema_name: name, expires_at: asked, temporary } = proposed
  if (Object.keys(content).length === 0)
    return refuse('memory.content.empty', 'The content is empty.', { path: 'content' })
  const schema = name === undefined ? undefined : schemas.find(name)
  if (name !== undefined && !schema) {
    const hint =
      schemas.names.length > 0
        ? `The schemas are ${schemas.names.join(', ')}.`
        : 'This installation declares no memory schema.'
    return refuse('memory.schema.unknown', 'There is no such memory schema.', { path: 'schema_name', hint })
  }
  const expiresAt = endOf(schema, asked, at)
  if (temporary === true && expiresAt === null)
    return refuse('memory.expiry.missing', 'A temporary memory needs an expiry time.', { path: 'expires_at' })
  if (expiresAt !== null && expiresAt <= at)
    return refuse('memory.expiry.past', 'The expiry time has already passed.', { path: 'expires_at' })
  const found = classifyContent(content, proposed.sensitivity ?? schema?.sensitivity)
  if (found.class === 'secret') {
    const secret = found.findings.find((each) => each.class === 'secret')
    return refuse('memory.content.secret', 'A secret cannot be stored as a memory.', {
      path: `content.${secret?.path ?? ''}`,
      hint: 'Store its location instead, such as vault://team/name.',
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

/** Returns the earlier of the requested time and the latest time that the schema allows. */
function endOf(schema: MemorySchema | undefined, asked: Date | undefined, at: Date): Date | null {
  const days = schema?.expiration.after_days ?? null
  const latest = days === null ? undefined : new Date(at.getTime() + days * DAY_MS)
  if (asked && latest) return asked < latest ? asked : latest
  return asked ?? latest ?? null
}

/** The same idempotency key with other content is another request. */
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

/** Derives the id from the idempotency key, so that a repeated request finds its own candidate. */
export function candidateIdOf(workspaceId: string, key: string): string {
  return eventIdOf('memory_candidate', workspaceId, key)
}

export type NewCandidate = CandidateRef & {
  readonly commandId: string
  readonly memory: CheckedMemory
  readonly agent?: { readonly agentRunId: string; readonly stepIndex?: number | undefined } | undefined
}

/** $1 the row as JSON. */
const insertSql = statement<StoredCandidate>(
  'memory_insert_candidate',
  `insert into concord.memory_candidates select * from jsonb_populate_record(null::concord.memory_candidates, $1::jsonb)
returning ${candidateColumns}`,
)

/** Runs in the transaction that opens the command of the candidate. */
export async function insertCandidate(
  tx: Tx,
  { now, newId, store, schemas }: Pick<MemoryDeps, 'now' | 'newId' | 'store' | 'schemas'>,
  actor: Actor,
  { workspaceId, candidateId, commandId, memory, agent }: NewCandidate,
): Promise<Decision<StoredCandidate>> {
  const at = now()
  const local = store.within?.(tx) ?? store
  // Takes the locks before the check: an erasure of the subject or of a source has then finished, or waits for this write.
  await shareSubjects(tx, local, workspaceId, memory)
  const named = new Set([...memory.derived_from, ...(memory.supersedes === null ? [] : [memory.supersedes])])
  const found = await Promise.all([...named].map((memoryId) => local.get({ workspaceId, memoryId })))
  const known = new Set(found.flatMap((each) => (each && each.status !== 'deleted' ? [each.memory_id] : [])))
  const lost = [...named].find((memoryId) => !known.has(memoryId))
  if (lost !== undefined)
    return refuse('memory.source.not_found', 'A memory that the proposal names does not exist.', {
      path: memory.derived_from.includes(lost) ? 'derived_from' : 'supersedes',
    })
  const { memory_type, scope, sensitivity } = memory
  const schema = memory.schema_name === null ? null : (schemas.find(memory.schema_name) ?? null)
  // What may not be kept is not stored as a candidate either.
  if (schema && lacksConsent({ schema, has_consent: await hasConsent(tx, workspaceId, memory, at) }))
    return refuse('memory.consent.missing', sayConsentMissing(schema), {
      path: 'schema_name',
      hint: `Record the consent first: concord memory consent grant --subject <kind:id> --type ${memory_type} --scope ${scope}`,
    })
  const agentRunId = agent?.agentRunId ?? null
  const values = {
    ...memory,
    memory_candidate_id: candidateId,
    workspace_id: workspaceId,
    command_id: commandId,
    agent_run_id: agentRunId,
    created_by: actor.id,
    created_at: at,
    status: 'proposed',
  }
  const [row] = await tx.run(insertSql, [values])
  if (!row) return refuse('memory.candidate.not_found', 'The candidate was not stored.')
  const payload = { memory_type, scope, sensitivity }
  await candidates.append(tx, row, actor, { type: 'memory_candidate_created', at, newId, payload })
  if (agent?.stepIndex !== undefined) {
    const about = { target_type: 'memory_candidate', target_id: candidateId }
    await appendMemoryEvent(tx, newId, actor, at, {
      type: 'propose_memory',
      payload: { ...about, action_type: 'propose_memory', created_command_id: commandId },
      links: {
        workspace_id: workspaceId,
        command_id: commandId,
        agent_run_id: agentRunId,
        step_index: agent.stepIndex,
      },
    })
  }
  return accept(row)
}

export type CandidatePage = { readonly items: readonly StoredCandidate[]; readonly next: readonly string[] | undefined }

const listSql = statement<StoredCandidate & Paged>(
  'memory_list_candidates',
  pageText(`select ${candidateColumns} from concord.memory_candidates
where workspace_id = $1 and ($2::text is null or status = $2)
  and ($6::text is null or scope <> 'user' or subject_type <> 'user' or subject_id = $6 or created_by = 'user:' || $6) and ($3::timestamptz is null or (created_at, memory_candidate_id) < ($3, $4))
order by created_at desc, memory_candidate_id desc limit $5`),
)

export type ListCandidates = {
  readonly workspaceId: string
  readonly status?: MemoryCandidateState | undefined
  readonly after?: readonly string[] | undefined
  readonly limit: number
}

/** Of the private candidates about other users, a user sees only those that they proposed. */
export async function listCandidates(
  { db }: Pick<MemoryDeps, 'db'>,
  actor: Actor,
  { workspaceId, status, after = [], limit }: ListCandidates,
): Promise<CandidatePage> {
  const [at = null, id = null] = after
  const viewer = viewerOf(actor) ?? null
  const rows = await db.run(listSql, [workspaceId, status ?? null, at, id, limit + 1, viewer])
  return cutPage(
    rows,
    limit,
    (row) => row,
    ({ created_at, memory_candidate_id: last }) => [created_at.toISOString(), last],
  )
}

export type ShownCandidate = { readonly candidate: StoredCandidate; readonly consents: readonly StoredConsent[] }

const CONSENTS_MAX = 50

/** Returns a candidate with the consents of its subject for its type and scope, active or revoked. */
export async function getCandidate(
  { db }: Pick<MemoryDeps, 'db'>,
  actor: Actor,
  { workspaceId, candidateId }: CandidateRef,
): Promise<Decision<ShownCandidate>> {
  const candidate = await findCandidate(db, workspaceId, candidateId)
  if (!candidate || !isShown(candidate, viewerOf(actor))) return refuseNoCandidate()
  const { memory_type, scope } = candidate
  const consents = await listConsents(db, { workspaceId, subject: candidate, viewer: undefined, limit: CONSENTS_MAX })
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
