/** Retrieval: by subject, task type, connector or text, for people and for runs. What is handed out is on record first (M5, M6). */
import { z } from 'zod'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { scoped, statement, type Tx } from '#store'
import type { MemoryDeps } from './deps.ts'
import { tellMemory } from './events.ts'
import {
  type MemoryQueryKind,
  type MemoryType,
  memoryTypes,
  type StoredMemory,
  type Subject,
} from './memory-repository.ts'
import {
  embed,
  type FoundMemory,
  type MemoryQuery,
  type MemoryStore,
  type ReadNote,
  type SearchScope,
} from './memory-store.ts'
import { refuseAbsent } from './postgres-store.ts'

const RESULTS_MAX = 100

export const runScope = z.strictObject({
  subject_type: z.string().min(1),
  subject_id: z.string().min(1),
  allowed_memory_types: z.array(z.enum(memoryTypes)),
  allow_semantic_retrieval: z.boolean(),
  max_results: z.int().min(0).max(RESULTS_MAX),
  /** Names of memory schemas, as the manifest has them. */
  read: z.array(z.string()).default([]),
  write: z.array(z.string()).default([]),
})
export type RunScope = z.infer<typeof runScope>

const within = (child: readonly string[], parent: readonly string[]) => child.every((each) => parent.includes(each))

/** `child ⊆ parent`, part by part; the first part that reaches out is named. */
export function decideChildScope(parent: RunScope, child: RunScope): Decision<RunScope> {
  const parts: readonly (readonly [keyof RunScope, boolean])[] = [
    ['subject_type', child.subject_type === parent.subject_type],
    ['subject_id', child.subject_id === parent.subject_id],
    ['allowed_memory_types', within(child.allowed_memory_types, parent.allowed_memory_types)],
    ['allow_semantic_retrieval', parent.allow_semantic_retrieval || !child.allow_semantic_retrieval],
    ['max_results', child.max_results <= parent.max_results],
    ['read', within(child.read, parent.read)],
    ['write', within(child.write, parent.write)],
  ]
  const wide = parts.find(([, isWithin]) => !isWithin)?.[0]
  if (wide === undefined) return accept(child)
  return refuse('memory.scope.exceeded', `The child's ${wide} reaches beyond its parent's.`, {
    path: `memory_scope.${wide}`,
    hint: 'Give the child at most what its parent has.',
  })
}

export function isScopeWithin(parent: RunScope, child: RunScope): boolean {
  return decideChildScope(parent, child).ok
}

export type Manifest = { readonly read: readonly string[]; readonly write: readonly string[] }

/** The manifest's names and the run's own shape, narrowed to what both allow. */
export function narrowScope(manifest: Manifest, asked: RunScope): RunScope {
  return {
    ...asked,
    read: asked.read.filter((name) => manifest.read.includes(name)),
    write: asked.write.filter((name) => manifest.write.includes(name)),
  }
}

export type AgentQuery = {
  readonly kind: MemoryQueryKind
  readonly limit: number
  readonly subject?: Subject | undefined
}

/** How many results a run may get for a query, or why it may not ask. */
export function decideRead(scope: RunScope, query: AgentQuery): Decision<{ readonly limit: number }> {
  if (query.kind === 'semantic' && !scope.allow_semantic_retrieval) {
    return refuse('memory.scope.exceeded', 'This run may not search memory by text.', {
      path: 'query',
      hint: 'Ask by subject, task type or connector.',
    })
  }
  const { subject } = query
  const isForeign =
    subject !== undefined && (subject.subject_type !== scope.subject_type || subject.subject_id !== scope.subject_id)
  if (isForeign) {
    return refuse('memory.scope.exceeded', 'This run may not read about this subject.', { path: 'subject' })
  }
  return accept({ limit: Math.min(query.limit, scope.max_results) })
}

export type PersonReading = {
  readonly kind: 'person'
  readonly actor: string
  readonly userId: string
  /** Administrators and data owners: sees what others keep under scope `user`. */
  readonly seesAll: boolean
  readonly traceId: string
}
export type RunReading = {
  readonly kind: 'run'
  readonly agentRunId: string
  readonly scope: RunScope
  readonly stepIndex?: number
  readonly traceId: string
}
export type Reader = PersonReading | RunReading

export type SearchMemory = {
  readonly workspaceId: string
  readonly subject?: Subject | undefined
  readonly memoryTypes?: readonly MemoryType[] | undefined
  readonly taskType?: string | undefined
  readonly connector?: string | undefined
  readonly text?: string | undefined
  readonly limit: number
}

/** The most telling of what was asked by. */
function kindOfQuery(input: Omit<SearchMemory, 'workspaceId' | 'limit'>): MemoryQueryKind {
  if (input.text !== undefined) return 'semantic'
  if (input.connector !== undefined) return 'connector'
  return input.taskType === undefined ? 'subject' : 'task_type'
}

export async function searchMemory(
  deps: MemoryDeps,
  reader: Reader,
  input: SearchMemory,
): Promise<Decision<readonly FoundMemory[]>> {
  const kind = kindOfQuery(input)
  const allowed =
    reader.kind === 'run'
      ? decideRead(reader.scope, { kind, limit: input.limit, subject: input.subject })
      : accept({ limit: input.limit })
  if (!allowed.ok) return allowed
  const query: MemoryQuery | null =
    input.text === undefined ? null : { text: input.text, embedding: await embed(deps.embedder, input.text) }
  const scope = scopeOf(deps, reader, input)
  const note = noteOf(deps, reader, kind)
  const find = (store: MemoryStore, tx?: Tx) => searchNoted(deps, store, scope, query, allowed.value.limit, note, tx)
  return accept(reader.kind === 'run' ? await readAsRun(deps, reader, scope, note, find) : await find(deps.store))
}

function scopeOf(deps: MemoryDeps, reader: Reader, input: SearchMemory): SearchScope {
  const { workspaceId, subject, memoryTypes, taskType, connector } = input
  const base = { workspaceId, at: deps.now(), taskType, connector }
  if (reader.kind === 'person') {
    return { ...base, subject, memoryTypes, viewer: reader.seesAll ? undefined : reader.userId }
  }
  const { subject_type, subject_id, allowed_memory_types: allowed, read } = reader.scope
  const types = memoryTypes === undefined ? allowed : allowed.filter((type) => memoryTypes.includes(type))
  return { ...base, subject: { subject_type, subject_id }, memoryTypes: types, schemaNames: read }
}

function noteOf({ newId }: MemoryDeps, reader: Reader, kind: MemoryQueryKind): ReadNote {
  const isRun = reader.kind === 'run'
  return {
    readId: newId(),
    reader: isRun ? `agent:${reader.agentRunId}` : reader.actor,
    agentRunId: isRun ? reader.agentRunId : null,
    kind,
    traceId: reader.traceId,
  }
}

const insertRead = statement<never>(
  'memory_insert_read',
  `insert into concord.memory_reads (memory_read_id, workspace_id, reader, agent_run_id, query_kind, trace_id, read_at, memory_ids)
values ($1, $2, $3, $4, $5, $6, $7, $8)`,
)

/** One statement where the store is in this database; otherwise the record is committed before anything is handed out. */
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

const narrowTransaction = statement<never>(
  'memory_narrow_transaction',
  `select set_config('concord.memory_subject', $1, true), set_config('concord.memory_types', $2, true)`,
)
/** An empty setting would be no wall; a run without types sees nothing. */
const NO_TYPE = 'none'

/** Behind row security, with its step and its audit in the same commit. */
function readAsRun(
  deps: MemoryDeps,
  { agentRunId, scope: run, stepIndex, traceId }: RunReading,
  scope: SearchScope,
  note: ReadNote,
  find: (store: MemoryStore, tx: Tx) => Promise<readonly FoundMemory[]>,
): Promise<readonly FoundMemory[]> {
  return scoped(deps.db, scope.workspaceId).transaction(async (tx) => {
    const types = run.allowed_memory_types.join(',') || NO_TYPE
    await tx.run(narrowTransaction, [`${run.subject_type}:${run.subject_id}`, types])
    const found = await find(deps.store.within?.(tx) ?? deps.store, tx)
    const payload = { query_kind: note.kind, memory_ids: found.map(({ memory_id }) => memory_id) }
    const about = { workspaceId: scope.workspaceId, target: 'memory_read', targetId: note.readId }
    const links = { agent_run_id: agentRunId }
    const act = { actor: note.reader, actorKind: 'worker', traceId, at: scope.at } as const
    const step = stepIndex === undefined ? [] : [{ ...links, step_index: stepIndex }]
    await tellMemory(tx, deps.newId, act, [
      { ...about, type: 'memory_read', payload, links },
      ...step.map((at) => ({
        ...about,
        type: 'read_memory' as const,
        payload: { ...payload, action_type: 'read_memory' },
        links: at,
      })),
    ])
    return found
  })
}

/** One memory by its id, in whatever state; noted like every read. */
export async function readMemory(
  deps: MemoryDeps,
  reader: PersonReading,
  { workspaceId, memoryId }: { readonly workspaceId: string; readonly memoryId: string },
): Promise<Decision<StoredMemory>> {
  const found = await deps.store.get({ workspaceId, memoryId })
  const isPrivate = found?.scope === 'user' && found.subject_type === 'user' && found.subject_id !== reader.userId
  const shown = found && (reader.seesAll || !isPrivate) ? found : undefined
  const { readId, reader: who, kind, traceId } = noteOf(deps, reader, 'id')
  const ids = shown ? [shown.memory_id] : []
  await deps.db.run(insertRead, [readId, workspaceId, who, null, kind, traceId, deps.now(), ids])
  return shown ? accept(shown) : refuseAbsent()
}
