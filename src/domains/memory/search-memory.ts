/** Retrieval by subject, task type, connector or text, for people and for agent runs. Every read is recorded before it returns (M5, M6). */
import { z } from 'zod'
import { findWider } from '#kernel/agents/scope'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { scoped, statement, type Tx } from '#store'
import { type MemoryReader, viewerOf } from './consent.ts'
import type { MemoryDeps } from './deps.ts'
import { appendMemoryEvent } from './events.ts'
import { type MemoryType, memoryTypes, type StoredMemory, type Subject } from './memory-record.ts'
import {
  embed,
  type FoundMemory,
  type MemoryQuery,
  type MemoryQueryKind,
  type MemoryRef,
  type MemoryStore,
  type ReadNote,
  type SearchScope,
} from './memory-store.ts'
import { refuseAbsent } from './postgres-store.ts'

const RESULTS_MAX = 100

/** What an agent run may read and propose. */
export const runScope = z.strictObject({
  subject_type: z.string().min(1),
  subject_id: z.string().min(1),
  allowed_memory_types: z.array(z.enum(memoryTypes)),
  allow_semantic_retrieval: z.boolean(),
  max_results: z.int().min(0).max(RESULTS_MAX),
  /** Names of memory schemas, as in the manifest. */
  read: z.array(z.string()).default([]),
  write: z.array(z.string()).default([]),
})
export type RunScope = z.infer<typeof runScope>

/** Accepts a child scope that its parent contains, and names the first field that exceeds the parent. */
export function decideChildScope(parent: RunScope, child: RunScope): Decision<RunScope> {
  const wide = findWider(parent, child, 'memory_scope')
  if (wide === null) return accept(child)
  return refuse('memory.scope.exceeded', `The ${wide} of the child exceeds that of its parent.`, {
    path: wide,
    hint: 'Give the child at most what its parent has.',
  })
}

/** Narrows the schema names of a run to those in the manifest. */
export function narrowScope(manifest: Pick<RunScope, 'read' | 'write'>, asked: RunScope): RunScope {
  return {
    ...asked,
    read: asked.read.filter((name) => manifest.read.includes(name)),
    write: asked.write.filter((name) => manifest.write.includes(name)),
  }
}

/** Returns how many results a run may get, or refuses the query. */
export function decideRead(
  scope: RunScope,
  query: { readonly kind: MemoryQueryKind; readonly limit: number; readonly subject?: Subject | undefined },
): Decision<number> {
  if (query.kind === 'semantic' && !scope.allow_semantic_retrieval) {
    return refuse('memory.scope.exceeded', 'This run may not search memory by text.', {
      path: 'query',
      hint: 'Search by subject, task type or connector.',
    })
  }
  const { subject } = query
  const isForeign =
    subject !== undefined && (subject.subject_type !== scope.subject_type || subject.subject_id !== scope.subject_id)
  if (isForeign)
    return refuse('memory.scope.exceeded', 'This run may not read about this subject.', { path: 'subject' })
  return accept(Math.min(query.limit, scope.max_results))
}

export type SearchMemory = {
  readonly workspaceId: string
  readonly subject?: Subject | undefined
  readonly memoryTypes?: readonly MemoryType[] | undefined
  readonly taskType?: string | undefined
  readonly connector?: string | undefined
  readonly text?: string | undefined
  readonly limit: number
}

/** Returns the most specific kind of the query. */
function kindOfQuery({ text, connector, taskType }: SearchMemory): MemoryQueryKind {
  if (text !== undefined) return 'semantic'
  if (connector !== undefined) return 'connector'
  return taskType === undefined ? 'subject' : 'task_type'
}

async function queryOf({ embedder }: MemoryDeps, { text }: SearchMemory): Promise<MemoryQuery | null> {
  return text === undefined ? null : { text, embedding: await embed(embedder, text) }
}

export async function searchMemory(
  deps: MemoryDeps,
  actor: MemoryReader,
  input: SearchMemory,
): Promise<readonly FoundMemory[]> {
  const { workspaceId, subject, memoryTypes, taskType, connector, limit } = input
  const query = await queryOf(deps, input)
  const scope = { workspaceId, at: deps.now(), subject, memoryTypes, taskType, connector, viewer: viewerOf(actor) }
  return searchNoted(deps, deps.store, scope, query, limit, noteOf(deps, actor, kindOfQuery(input)))
}

function noteOf({ newId }: MemoryDeps, { id: reader, traceId }: MemoryReader, kind: MemoryQueryKind): ReadNote {
  return { readId: newId(), reader, agentRunId: null, kind, traceId }
}

const insertRead = statement<never>(
  'memory_insert_read',
  `insert into concord.memory_reads (memory_read_id, workspace_id, reader, agent_run_id, query_kind, trace_id, read_at, memory_ids)
values ($1, $2, $3, $4, $5, $6, $7, $8)`,
)

/** One statement where the store is in this database; otherwise the read is recorded before the records return. */
async function searchNoted(
  { db }: MemoryDeps,
  store: MemoryStore,
  scope: SearchScope,
  query: MemoryQuery | null,
  limit: number,
  note: ReadNote,
  tx?: Tx,
): Promise<readonly FoundMemory[]> {
  if (store.searchNoted) return store.searchNoted(scope, query, limit, note)
  const found = await store.search(scope, query, limit)
  const ids = found.map(({ memory_id }) => memory_id)
  const { readId, reader, agentRunId, kind, traceId } = note
  await (tx ?? db).run(insertRead, [readId, scope.workspaceId, reader, agentRunId, kind, traceId, scope.at, ids])
  return found
}

/** An agent run that reads memory. */
export type ReadingRun = {
  readonly agentRunId: string
  readonly scope: RunScope
  readonly stepIndex?: number
  readonly traceId: string
}

const narrowTransaction = statement<never>(
  'memory_narrow_transaction',
  `select set_config('concord.memory_subject', $1, true), set_config('concord.memory_types', $2, true)`,
)
/** Row security takes an empty setting for none at all; a run without types must see nothing. */
const NO_TYPE = 'none'

/** Searches under row security, and records the read, the step of the run and the audit event in the same commit. */
export async function searchMemoryForRun(
  deps: MemoryDeps,
  { agentRunId, scope: run, stepIndex, traceId }: ReadingRun,
  input: SearchMemory,
): Promise<Decision<readonly FoundMemory[]>> {
  const kind = kindOfQuery(input)
  const limit = decideRead(run, { kind, limit: input.limit, subject: input.subject })
  if (!limit.ok) return limit
  const { workspaceId, memoryTypes: asked, taskType, connector } = input
  const { subject_type, subject_id, allowed_memory_types: allowed, read: schemaNames } = run
  const subject = { subject_type, subject_id }
  const memoryTypes = asked === undefined ? allowed : allowed.filter((type) => asked.includes(type))
  const query = await queryOf(deps, input)
  const at = deps.now()
  const actor = { id: `agent:${agentRunId}`, kind: 'worker', traceId } as const
  const note = { ...noteOf(deps, actor, kind), agentRunId }
  return scoped(deps.db, workspaceId).transaction(async (tx) => {
    await tx.run(narrowTransaction, [`${subject_type}:${subject_id}`, allowed.join(',') || NO_TYPE])
    const store = deps.store.within?.(tx) ?? deps.store
    const scope = { workspaceId, at, taskType, connector, subject, memoryTypes, schemaNames }
    const found = await searchNoted(deps, store, scope, query, limit.value, note, tx)
    const memory_ids = found.map(({ memory_id }) => memory_id)
    const payload = { query_kind: kind, memory_ids, target_type: 'memory_read', target_id: note.readId }
    const links = { workspace_id: workspaceId, agent_run_id: agentRunId }
    await appendMemoryEvent(tx, deps.newId, actor, at, { type: 'memory_read', payload, links })
    if (stepIndex !== undefined)
      await appendMemoryEvent(tx, deps.newId, actor, at, {
        type: 'read_memory',
        payload: { ...payload, action_type: 'read_memory' },
        links: { ...links, step_index: stepIndex },
      })
    return accept(found)
  })
}

/** Returns one memory by its id: in any state, or only if a search would find it. The read is recorded like every other. */
export async function readMemory(
  deps: MemoryDeps,
  actor: MemoryReader,
  { workspaceId, memoryId, activeOnly = false }: MemoryRef & { readonly activeOnly?: boolean },
): Promise<Decision<StoredMemory>> {
  const at = deps.now()
  const found = await deps.store.get({ workspaceId, memoryId })
  const viewer = viewerOf(actor)
  const isPrivate = found?.scope === 'user' && found.subject_type === 'user' && found.subject_id !== viewer
  const isActive = found?.status === 'active' && (found.expires_at === null || found.expires_at > at)
  const shown = found && (viewer === undefined || !isPrivate) && (isActive || !activeOnly) ? found : undefined
  const { readId, reader, kind, traceId } = noteOf(deps, actor, 'id')
  const ids = shown ? [shown.memory_id] : []
  await deps.db.run(insertRead, [readId, workspaceId, reader, null, kind, traceId, at, ids])
  return shown ? accept(shown) : refuseAbsent()
}
