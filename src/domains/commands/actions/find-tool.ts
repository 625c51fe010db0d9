/** Finds the task that an agent names as a tool, among the tasks that are open to agents. Pure. */
import { z } from 'zod'
import type { Agent } from '#kernel/actor'
import { nearestNames } from '#kernel/nearest'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { Catalog, CompiledTask } from '../catalog/open-catalog.ts'
import { isRunOnly, personFields } from '../tasks.ts'

/** `Publish Report` is the tool `publish_report`. */
export function toolSlug(taskName: string): string {
  return taskName
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '_')
    .replace(/^_|_$/g, '')
}

function isTool({ spec }: Pick<CompiledTask, 'spec'>): boolean {
  return spec.ingress_types.includes('agent_action')
}

function namesOf({ spec, type }: Pick<CompiledTask, 'spec' | 'type'>): readonly string[] {
  return [toolSlug(spec.name), spec.function_name, type.name]
}

/** The names of the tasks that these tools are, each once. */
export function findTools(catalog: Pick<Catalog, 'tasks'>, named: readonly string[]): Decision<readonly string[]> {
  const names = new Set<string>()
  for (const [index, name] of named.entries()) {
    const tool = findTool(catalog, name)
    if (!tool.ok) return { ...tool, path: `tools.${index}` }
    names.add(tool.value.spec.name)
  }
  return accept([...names])
}

/** The tasks that an agent may propose; people may propose every tool. */
export function decideScope({ spec }: Pick<CompiledTask, 'spec'>, agent: Agent | undefined): Decision<undefined> {
  if (!agent || agent.tools.includes(spec.name)) return accept(undefined)
  return refuse(
    'commands.tool.outside_scope',
    `The key of the agent ${quote(agent.name)} does not cover ${quote(spec.name)}.`,
    {
      path: 'tool_name',
      facts: { tools: agent.tools },
    },
  )
}

/** The tasks that a name can mean: the one with this name, or all with this slug, function or command type. */
export function tasksNamed({ tasks }: Pick<Catalog, 'tasks'>, named: string): readonly CompiledTask[] {
  const own = tasks.get(named)
  return own ? [own] : [...tasks.values()].filter((task) => namesOf(task).includes(named))
}

/** The tools that an agent, or a person, may propose without a run. Each has its slug, or its next name if the slug is not its alone. */
export function listTools(
  catalog: Pick<Catalog, 'tasks'>,
  agent: Agent | undefined,
): readonly { readonly name: string; readonly task: CompiledTask }[] {
  const tools = [...catalog.tasks.values()].filter(
    (task) => isTool(task) && !isRunOnly(task.spec) && decideScope(task, agent).ok,
  )
  const isOwn = (name: string, task: CompiledTask) => {
    const found = findTool(catalog, name)
    return found.ok && found.value === task
  }
  return tools.map((task) => ({ name: namesOf(task).find((name) => isOwn(name, task)) ?? task.spec.name, task }))
}

/** The JSON Schema of the arguments that an agent gives. */
export function toolSchema({ spec, type }: Pick<CompiledTask, 'spec' | 'type'>) {
  const { $schema: _, ...schema } = z.toJSONSchema(type.payload, { io: 'input', unrepresentable: 'any' })
  const hidden = personFields(spec)
  const shown = Object.entries(schema.properties ?? {}).filter(([name]) => !hidden.includes(name))
  return hidden.length === 0 ? schema : { ...schema, properties: Object.fromEntries(shown) }
}

/** By the name of the task, or by its slug, function or command type if one open task has it. */
export function findTool({ tasks }: Pick<Catalog, 'tasks'>, named: string): Decision<CompiledTask> {
  const meant = tasksNamed({ tasks }, named)
  const [tool, ...others] = meant.filter(isTool)
  if (tool && others.length === 0) return accept(tool)
  const open = [...tasks.values()].filter(isTool)
  if (tool) {
    const names = [tool, ...others].map(({ spec }) => spec.name)
    return refuse('commands.tool.ambiguous', `${quote(named)} could be ${names.map(quote).join(' or ')}.`, {
      path: 'tool_name',
      facts: { tools: names },
    })
  }
  const [closed] = meant
  if (closed) {
    return refuse('commands.tool.forbidden', `The task ${quote(closed.spec.name)} is not open to agents.`, {
      path: 'tool_name',
    })
  }
  const near = nearestNames(
    named,
    open.map(({ spec }) => toolSlug(spec.name)),
  )
  return refuse('commands.tool.unknown', `There is no tool ${quote(named)}.`, {
    path: 'tool_name',
    ...(near.length > 0 && { hint: `Did you mean ${near.map((name) => `\`${name}\``).join(' or ')}?` }),
    facts: { nearest: near },
  })
}
