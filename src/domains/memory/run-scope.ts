/** What one run may see of memory: fixed when it is spawned, never more than its parent's, nothing inherited by itself. Pure. */
import { z } from 'zod'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type MemoryQueryKind, memoryTypes } from './memory-row.ts'
import type { Subject } from './memory-row.ts'

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
