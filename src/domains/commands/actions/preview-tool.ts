/**
 * What a call of a tool would need, before an agent has chosen its arguments: the task is previewed with examples of them, for an agent that has read nothing
 * untrusted and for one that has. Nothing is recorded.
 */
import type { Actor } from '#kernel/actor'
import { KernelFault } from '#kernel/errors'
import { exampleVariants } from '#kernel/example-payload'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision } from '#kernel/refusal'
import type { Catalog, CompiledTask } from '../catalog/open-catalog.ts'
import type { CommandDeps } from '../deps.ts'
import { findAgentStanding } from '../labels.ts'
import { type CommandPreview, previewCommand } from '../preview.ts'
import type { SubmitCommand } from '../submit.ts'
import { validatePayload } from '../tasks.ts'
import { findTool, tasksNamed, toolSchema } from './find-tool.ts'
import { findScopeGaps, type ToolScope } from './run-authority.ts'

/** What the definition of an agent says about its tools. */
type ToolUser = {
  readonly tools: readonly string[]
  readonly forbidden_tools: readonly string[]
  readonly approval_gates: readonly string[]
  readonly connectors: readonly string[]
  readonly memory: { readonly write_allowed: boolean }
}

/** `always`: for all arguments. `arguments`: for some. `untrusted_content`: only when untrusted content has reached the agent. */
type Condition = 'always' | 'arguments' | 'untrusted_content'
type NeededApprovals = readonly (CommandPreview['approvals'][number] & { readonly when: Condition })[]

export type ToolPreview = {
  readonly taskName: string
  readonly riskLevel: string
  /** Why the agent may not call it; empty: it may. */
  readonly gaps: readonly string[]
  readonly approvals: NeededApprovals
  /** For which arguments policy denies it, and the first reason. */
  readonly denied: { readonly when: 'always' | 'arguments'; readonly reason: string } | null
  readonly irreversible: readonly IrreversibleEffect[]
  /** Fields that a person supplies: the agent does not see them. */
  readonly input: readonly string[]
  /** False: no example of its arguments is valid, so nothing is known about a call. */
  readonly isTried: boolean
}

type PreviewTool = Pick<SubmitCommand, 'workspaceId' | 'requestId'> & {
  readonly toolName: string
  readonly agent: ToolUser
}

const EXAMPLES_MAX = 16

export async function previewTool(deps: CommandDeps, by: Actor, asked: PreviewTool): Promise<Decision<ToolPreview>> {
  const { catalog } = deps
  const { toolName, agent, workspaceId, requestId } = asked
  const tool = findTool(catalog, toolName)
  if (!tool.ok) return tool
  const task = tool.value
  const isGated = agent.approval_gates.some((gate) => tasksNamed(catalog, gate).some(({ spec }) => spec === task.spec))
  const call = { workspaceId, requestId, taskName: task.spec.name, ingress: 'agent_action', runAs: 'agent' } as const
  const preview = async (payloads: readonly JsonObject[], labels: readonly string[]) => {
    const previews: CommandPreview[] = []
    for (const payload of payloads) {
      const previewed = await previewCommand(asAgent(deps, isGated, labels), by, { ...call, payload }).catch(noFact)
      if (!previewed) return previews
      if (previewed.ok) previews.push(previewed.value)
    }
    return previews
  }
  const examples = examplesOf(task)
  const clean = await preview(examples, [])
  const tainted = clean.length === 0 ? [] : await preview(examples.slice(0, 1), [UNTRUSTED])
  const decided = clean.filter(({ policy }) => policy !== null)
  const isSeen = (field: string) => Object.hasOwn(toolSchema(task)['properties'] ?? {}, field)
  const denials = decided.filter(({ policy }) => policy?.decision === 'deny')
  return accept({
    taskName: task.spec.name,
    riskLevel: task.spec.risk_level,
    gaps: findScopeGaps(catalog, scopeOf(agent, by), task),
    approvals: mergeApprovals(decided, tainted),
    denied: denials[0]
      ? {
          when: denials.length === decided.length ? 'always' : 'arguments',
          reason: denials[0].policy?.reasons.join(' ') ?? '',
        }
      : null,
    irreversible: listIrreversible(catalog, task),
    input: [...new Set(clean.flatMap(({ missing_fields }) => missing_fields))].filter((field) => !isSeen(field)),
    isTried: clean.length > 0,
  })
}

/** A fact of the project that cannot be loaded for an example. The driver of a command would try again. */
function noFact(error: unknown): undefined {
  if (!(error instanceof KernelFault)) throw error
}

/** The source of the content is not known yet. */
const UNTRUSTED = 'untrusted:content'

/** There is no run yet, so what its rows would say comes from its definition. A stop counts as it is. */
function asAgent(deps: CommandDeps, isGated: boolean, labels: readonly string[]): CommandDeps {
  return {
    ...deps,
    facts: {
      ...deps.facts,
      agent_scope: async () => ({ gaps: [], is_gated: isGated }),
      agent_standing: async (_, command) => {
        const standing = await findAgentStanding(deps, command)
        return standing && { ...standing, labels }
      },
    },
  }
}

/** Valid payloads of a task: one with every field, and variants of it. */
export function examplesOf(task: CompiledTask): readonly JsonObject[] {
  // The examples of a JSON Schema are JSON.
  const variants = exampleVariants(toolSchema(task)) as readonly JsonObject[]
  return variants.filter((each) => validatePayload(task.type, task.spec, each).t !== 'malformed').slice(0, EXAMPLES_MAX)
}

const scopeOf = (agent: ToolUser, { principal }: Actor): ToolScope => ({
  own: { tools: agent.tools, delegableTools: [], forbiddenTools: agent.forbidden_tools },
  ancestors: [],
  connectors: agent.connectors,
  may_write_memory: agent.memory.write_allowed,
  principal,
  key_tools: null,
})

const questionOf = ({ approver, approval_type }: CommandPreview['approvals'][number]) => `${approval_type} ${approver}`

/** Every approval that one of the previews asks for, once, and when. */
export function mergeApprovals(
  clean: readonly CommandPreview[],
  tainted: readonly CommandPreview[] = [],
): NeededApprovals {
  const needed = new Map<string, NeededApprovals[number]>()
  for (const previews of [clean, tainted])
    for (const { approvals } of previews)
      for (const approval of approvals) {
        const key = questionOf(approval)
        if (needed.has(key)) continue
        const times = clean.filter((each) => each.approvals.some((other) => questionOf(other) === key)).length
        const when = times === 0 ? 'untrusted_content' : times === clean.length ? 'always' : 'arguments'
        needed.set(key, { ...approval, when })
      }
  return [...needed.values()]
}

type IrreversibleEffect = {
  readonly effect_type: string
  readonly effect_class: string
  readonly reason: string
}

const IN_DOUBT = 'After an interrupted call only a person can say whether it happened.'

/** The declared effects of a task that act outside and cannot be undone, and those whose outcome nobody can look up. */
export function listIrreversible(
  { effects }: Pick<Catalog, 'effects'>,
  { type }: Pick<CompiledTask, 'type'>,
): readonly IrreversibleEffect[] {
  return type.side_effects.flatMap((effect_type): readonly IrreversibleEffect[] => {
    const definition = effects.get(effect_type)?.definition
    const { class: effect_class = 'opaque', outward = true, reversibility = 'irreversible' } = definition ?? {}
    if (!outward) return []
    if (reversibility === 'irreversible') return [{ effect_type, effect_class, reason: 'It cannot be undone.' }]
    return effect_class === 'opaque' ? [{ effect_type, effect_class, reason: IN_DOUBT }] : []
  })
}
