/** Checks at start that every agent of a project names a runtime, a model and tools that are there. */
import { type Catalog, findTool } from '#domains/commands'
import { didYouMean } from '#kernel/nearest'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { AgentDefinition } from './agent-definition.ts'
import { agentsOfSwarm, type SwarmDefinition } from './swarms/swarm-definition.ts'

/** What is checked of an agent, wherever it is declared. */
type DeclaredAgent = {
  readonly name: string
  /** Its path in the project. Default: in `agents`. */
  readonly place?: string
  readonly agent: Pick<AgentDefinition['agent'], 'runtime' | 'model' | 'tools' | 'forbidden_tools' | 'approval_gates'>
}

/** The coordinator and the agents of each swarm, with the runtime and the model that each will have. */
export function agentsOfSwarms(swarms: readonly SwarmDefinition[]): readonly DeclaredAgent[] {
  return swarms.flatMap(({ swarm }) =>
    agentsOfSwarm(swarm).map((agent) => ({
      name: `${swarm.name}, ${agent.name}`,
      place: `swarms.${swarm.name}.${agent.name}`,
      agent,
    })),
  )
}

/** The runtime of a transcript asks no model, and the one of the AI SDK cannot do without. */
const WITH_MODEL = 'ai_sdk'

export function checkAgents(
  agents: readonly DeclaredAgent[],
  runtimes: readonly string[],
  models: readonly string[],
): Decision<undefined> {
  for (const { name, agent, place = `agents.${name}` } of agents) {
    const { name: runtime } = agent.runtime
    if (!runtimes.includes(runtime))
      return refuse(
        'agents.runtime.unknown',
        `${name}: There is no agent runtime ${quote(runtime)}. ${listed('runtimes', runtimes)}`,
        { path: `${place}.runtime`, ...didYouMean(runtime, runtimes), facts: { runtimes: [...runtimes] } },
      )
    const { model } = agent.model
    const isGiven = typeof model === 'string'
    if (isGiven ? !models.includes(model) : runtime === WITH_MODEL)
      return refuse(
        'agents.model.unknown',
        `${name}: ${isGiven ? `There is no model ${quote(model)}.` : 'It names no model.'} ${listed('models', models)}`,
        {
          path: `${place}.model`,
          ...(isGiven ? didYouMean(model, models) : {}),
          facts: { models: [...models] },
        },
      )
  }
  return accept(undefined)
}

const LISTED_MAX = 20

function listed(what: string, names: readonly string[]): string {
  if (names.length === 0) return `The project has no ${what}.`
  const rest = names.length > LISTED_MAX ? ', …' : ''
  return `The project has the ${what} ${names.slice(0, LISTED_MAX).map(quote).join(', ')}${rest}.`
}

/**
 * A run whose definition names a tool that is not there could not begin. A forbidden tool and an approval gate may name a tool that the project does
 * not have, but not one that is spelled almost like a tool: the mistake would open what it should close.
 */
export function checkToolsOfAgents(
  agents: readonly DeclaredAgent[],
  catalog: Pick<Catalog, 'tasks'>,
): Decision<undefined> {
  for (const { name, agent, place = `agents.${name}` } of agents)
    for (const field of ['tools', 'forbidden_tools', 'approval_gates'] as const)
      for (const [index, tool] of agent[field].entries()) {
        const found = findTool(catalog, tool)
        if (found.ok) continue
        const near = found.facts?.['nearest']
        const isMistyped = Array.isArray(near) && near.length > 0
        if (field !== 'tools' && !isMistyped) continue
        const { reason, hint, facts } = found
        return refuse('agents.tool.unknown', `${name}: ${reason}`, {
          path: `${place}.${field}.${index}`,
          ...(hint === undefined ? {} : { hint }),
          ...(facts === undefined ? {} : { facts }),
        })
      }
  return accept(undefined)
}
