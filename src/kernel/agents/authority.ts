/**
 * Decides what an agent run may do: only what the person who asked may do today, its role, every ancestor and its own manifest permit, and nothing
 * that one of them forbids. The authority of a run is fixed when the run is created. Its hash covers the hash of its parent, so that one hash
 * proves the whole chain up to the person.
 */
import { canonicalJson } from '../canonical-json.ts'
import type { JsonObject } from '../json-value.ts'

/** What a run may use, by the names of the columns of its row. */
export type Authority = {
  readonly allowed_tools: readonly string[]
  readonly forbidden_tools: readonly string[]
  /** Tools that the run may pass on to a child and not use itself. Only the loader of a swarm sets them. */
  readonly delegable_tools: readonly string[]
  readonly allowed_connectors: readonly string[]
  readonly memory_scope: JsonObject
  readonly context_scope: JsonObject
  readonly max_steps: number
}

/** The tools of a run by their tasks. */
export type ToolSets = {
  readonly tools: readonly string[]
  readonly forbiddenTools: readonly string[]
  readonly delegableTools: readonly string[]
}

/** A list of names, or everything. */
type Permitted = readonly string[] | 'all'

export type AuthoritySources = {
  /** What the person may do today; null: the person has no access any more. */
  readonly requester: Permitted | null
  readonly role: Permitted
  /** The ancestors of the run, in any order. */
  readonly ancestors: readonly ToolSets[]
  readonly manifest: Pick<ToolSets, 'tools' | 'forbiddenTools'>
}

export type AuthorityGap = 'requester' | 'role' | 'parent' | 'manifest' | 'forbidden'

export const gapTexts: Readonly<Record<AuthorityGap, string>> = {
  requester: 'The person who asked for the run may not act here any more, or the key of the agent does not cover it.',
  role: 'The role of the agent does not cover it.',
  parent: 'A run above this one may not use it.',
  manifest: 'It is not in the manifest of the run.',
  forbidden: 'The run must not use it.',
}

/**
 * The gaps of a run, as texts, that stop a call after people have agreed to it. A requester who is gone is another question: an operator answers it before
 * anything begins.
 */
export function listLostScope(scope: unknown): readonly string[] {
  const { gaps = [] } = (scope ?? {}) as { readonly gaps?: readonly string[] }
  return gaps.filter((gap) => gap !== gapTexts.requester)
}

/** Returns every source that does not permit the tool; an empty list permits it. */
export function decideAuthority(tool: string, sources: AuthoritySources): readonly AuthorityGap[] {
  const { requester, role, ancestors, manifest } = sources
  const gaps: readonly (readonly [AuthorityGap, boolean])[] = [
    ['requester', requester === null || !permits(requester, tool)],
    ['role', !permits(role, tool)],
    ['parent', !ancestors.every((each) => each.tools.includes(tool) || each.delegableTools.includes(tool))],
    ['manifest', !manifest.tools.includes(tool)],
    ['forbidden', [manifest, ...ancestors].some((each) => each.forbiddenTools.includes(tool))],
  ]
  return gaps.flatMap(([gap, isOpen]) => (isOpen ? [gap] : []))
}

function permits(permitted: Permitted, tool: string): boolean {
  return permitted === 'all' || permitted.includes(tool)
}

/** The text whose SHA-256 is the authority hash of a run. The order of a list means nothing. */
export function authorityText(
  authority: Authority,
  origin: { readonly parentHash: string } | { readonly userId: string },
): string {
  return canonicalJson({
    tools: inOrder(authority.allowed_tools),
    forbidden_tools: inOrder(authority.forbidden_tools),
    delegable_tools: inOrder(authority.delegable_tools),
    connectors: inOrder(authority.allowed_connectors),
    memory_scope: authority.memory_scope,
    context_scope: authority.context_scope,
    max_steps: authority.max_steps,
    ...('parentHash' in origin ? { parent: origin.parentHash } : { person: origin.userId }),
  })
}

function inOrder(names: readonly string[]): string[] {
  return [...new Set(names)].sort()
}
