/** What a run of an agent gets from its definition and its input, before it starts. */
import { parseSubject, runScope } from '#domains/memory'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { AgentDefinition } from './agent-definition.ts'
import type { AgentTerms } from './agent-form.ts'
import type { DefinedRun } from './agent-run.ts'
import type { AgentDeps } from './deps.ts'
import { resolveTools } from './run-tools.ts'

/** `context`: the input as the schema of the task has parsed it. */
export function defineRun(
  deps: AgentDeps,
  { agent: terms, goalOf }: AgentDefinition,
  context: JsonObject,
): Decision<DefinedRun> {
  const tools = resolveTools(deps, terms.tools)
  if (!tools.ok) return tools
  const memoryScope = memoryScopeOf(terms, context)
  if (!memoryScope.ok) return memoryScope
  return accept({ terms, tools: tools.value, goal: goalOf(context), context, memoryScope: memoryScope.value })
}

const RESULTS_MAX = 20

/** The subject comes from the input: `customer:{customer_id}`. Without one, the scopes of the manifest apply. */
function memoryScopeOf({ memory }: AgentTerms, input: JsonObject): Decision<JsonObject> {
  if (memory.subject === null) return accept({})
  const subject = memory.subject.replaceAll(/\{(\w+)\}/g, (_, field: string) => {
    const value = input[field]
    return typeof value === 'string' || typeof value === 'number' ? String(value) : ''
  })
  const parsed = parseSubject(subject)
  const scope = runScope.safeParse({
    ...(parsed.ok && parsed.value),
    read: memory.schemas,
    write: memory.write_allowed ? memory.schemas : [],
    allowed_memory_types: [...memory.memory_types],
    allow_semantic_retrieval: true,
    max_results: RESULTS_MAX,
  })
  return scope.success
    ? accept(scope.data)
    : refuse('agents.memory.subject', `The memory subject ${subject} is not complete.`)
}
