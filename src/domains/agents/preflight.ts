/**
 * The pre-flight of a task: what it will need before it starts. The command itself is previewed, and for an agentic task and a swarm every tool of every
 * agent. What depends on the agent is named as unknown, with the time at which it is known. Nothing is recorded.
 */
import { listQuarantines } from '#domains/budgets'
import {
  type CommandDeps,
  findTask,
  listIrreversible,
  previewCommand,
  previewTool,
  RAISE_BUDGET,
  type SubmitCommand,
  type ToolPreview,
} from '#domains/commands'
import type { Actor } from '#kernel/actor'
import { priceWorstCase } from '#kernel/agents/price'
import { formatMoney, maxMoney, type Money, moneyFromMicros, moneyFromNumber } from '#kernel/money'
import { accept, type Decision } from '#kernel/refusal'
import type { AgentTerms } from './agent-form.ts'
import type { AgentDeps } from './deps.ts'
import type { Preflight } from './preflight-contract.ts'
import { agentsOfSwarm } from './swarms/swarm-definition.ts'

type Planned = {
  readonly kind: Preflight['kind']
  readonly agents: readonly AgentTerms[]
  readonly stepsMax: number
  readonly limitUnits: number | null
}

type AskPreflight = Pick<SubmitCommand, 'workspaceId' | 'requestId' | 'taskName' | 'payload'>

/** Whether a spawn is within the scope of its run is decided by the spawn. */
const spawnLater = { spawn: async () => ({ decision: 'allowed', reasons: [] }) }

export async function preflightTask(deps: AgentDeps, by: Actor, asked: AskPreflight): Promise<Decision<Preflight>> {
  const commands = { ...deps.commands, facts: { ...deps.commands.facts, ...spawnLater } }
  const previewed = await previewCommand(commands, by, { ...asked, ingress: 'user_request' })
  if (!previewed.ok) return previewed
  const { task_name, approvals, effects: _effects, ...command } = previewed.value
  const task = findTask(commands.catalog, task_name)
  const planned = plannedOf(deps, task_name)
  const own = task ? listIrreversible(commands.catalog, task) : []
  const tools = await previewTools(commands, by, asked, planned.agents)
  const found = [...tools.values()].flatMap(({ preview }) => (preview.ok ? [preview.value] : []))
  const spend = spendOf(deps, planned)
  const needed: Preflight['approvals'] = [
    ...(await previewRaise(commands, by, asked, spend)),
    ...approvals.map((approval) => ({ needed_by: task_name, when: 'always' as const, ...approval })),
    ...found.flatMap((tool) => tool.approvals.map((approval) => ({ needed_by: tool.taskName, ...approval }))),
  ]
  const missing = [
    ...(await findHeldModels(deps, asked.workspaceId, planned.agents)),
    ...[...tools].flatMap(([name, used]) => findToolGaps(name, used)),
    ...findMissingApprovers(needed),
  ]
  const isDenied = command.status === 'failed' || command.policy?.decision === 'deny'
  return accept({
    task_name,
    kind: planned.kind,
    is_ready: !isDenied && command.missing_fields.length === 0 && missing.length === 0,
    status: command.status,
    error: command.error,
    missing_fields: command.missing_fields,
    policy: command.policy,
    approvals: needed,
    spend,
    irreversible: [
      ...own.map((effect) => ({ needed_by: task_name, ...effect })),
      ...found.flatMap((tool) => tool.irreversible.map((effect) => ({ needed_by: tool.taskName, ...effect }))),
    ],
    missing,
    tools: [...tools].flatMap(([name, { preview, agents }]) =>
      preview.ok ? [{ name, agents: [...agents], risk_level: preview.value.riskLevel }] : [],
    ),
    unknown: listUnknown(planned, found, spend),
  })
}

function plannedOf(deps: AgentDeps, taskName: string): Planned {
  const agent = deps.agents.get(taskName)?.agent
  if (agent) {
    const { max_steps: stepsMax, max_cost_units: limitUnits } = agent.limits
    return { kind: 'agent', agents: [agent], stepsMax, limitUnits }
  }
  const swarm = deps.swarms.get(taskName)?.swarm
  if (!swarm) return { kind: 'command', agents: [], stepsMax: 0, limitUnits: 0 }
  const { max_total_steps: stepsMax, max_cost_units: limitUnits } = swarm.limits
  // A gate of the coordinator holds for every agent below it.
  const { approval_gates: gates } = swarm.coordinator
  const agents = agentsOfSwarm(swarm).map((each) => ({ ...each, approval_gates: [...gates, ...each.approval_gates] }))
  return { kind: 'swarm', agents, stepsMax, limitUnits }
}

type UsedTool = { readonly preview: Decision<ToolPreview>; readonly agents: readonly string[] }

/** By the name of the tool. Tools of several agents are previewed once each, unless their agents differ in what they may do with it. */
async function previewTools(
  commands: CommandDeps,
  by: Actor,
  { workspaceId, requestId }: AskPreflight,
  agents: readonly AgentTerms[],
): Promise<ReadonlyMap<string, UsedTool>> {
  const used = new Map<string, UsedTool>()
  for (const agent of agents)
    for (const toolName of agent.tools) {
      const known = used.get(toolName)
      const hasGaps = known?.preview.ok && known.preview.value.gaps.length > 0
      const preview =
        known && !hasGaps && agent.approval_gates.length === 0
          ? known.preview
          : await previewTool(commands, by, { workspaceId, requestId, toolName, agent })
      used.set(toolName, { preview, agents: [...(known?.agents ?? []), agent.name] })
    }
  return used
}

type Missing = Preflight['missing'][number]

/** That the project has the runtime and the model of each agent is checked at start. */
async function findHeldModels(
  { commands: { db } }: AgentDeps,
  workspaceId: string,
  agents: readonly AgentTerms[],
): Promise<readonly Missing[]> {
  const held = agents.length === 0 ? [] : await listQuarantines(db, workspaceId)
  const reason = 'The model is in quarantine: it is not called.'
  return agents.flatMap(({ name: needed_by, model: { model } }) =>
    held.filter((each) => each.model === model).map(({ model: name }) => ({ kind: 'model', name, needed_by, reason })),
  )
}

function findToolGaps(name: string, { preview, agents }: UsedTool): readonly Missing[] {
  const of = { kind: 'tool' as const, name, needed_by: agents.join(', ') }
  if (!preview.ok) return [{ ...of, reason: preview.reason }]
  const { gaps, denied } = preview.value
  return [
    ...gaps.map((reason) => ({ ...of, reason })),
    ...(denied?.when === 'always' ? [{ ...of, reason: `Policy denies every call: ${denied.reason}` }] : []),
  ]
}

/** Nobody can give the approval today. */
function findMissingApprovers(needed: Preflight['approvals']): readonly Missing[] {
  return needed.flatMap(({ needed_by, approver, blocked_by }) =>
    blocked_by ? [{ kind: 'approver' as const, name: approver, needed_by, reason: blocked_by.reason }] : [],
  )
}

/** The runtime of the AI SDK asks its model once a step. Other programs ask as often as they want. */
const ONE_CALL_A_STEP = ['ai_sdk', 'scripted']
const asksFreely = (agents: readonly AgentTerms[]) =>
  agents.some(({ runtime }) => !ONE_CALL_A_STEP.includes(runtime.name))

/** The most expensive call times the number of calls, and never more than the limit. Null: no model is asked. */
function spendOf({ models }: AgentDeps, { agents, stepsMax, limitUnits }: Planned): Preflight['spend'] {
  if (agents.length === 0) return null
  const prices = agents.flatMap(({ model: { model, output_tokens_max: cap } }) => {
    const terms = typeof model === 'string' ? models.find(model) : undefined
    if (!terms) return []
    const outputTokens = Math.min(terms.outputTokensMax, typeof cap === 'number' ? cap : Number.POSITIVE_INFINITY)
    return [priceWorstCase(terms.prices, { inputTokens: terms.contextTokens, outputTokens })]
  })
  const call = prices.reduce<Money | null>((most, price) => (most === null || price > most ? price : most), null)
  const limit = limitUnits === null ? null : moneyFromNumber(limitUnits)
  const product = call === null || asksFreely(agents) ? null : moneyFromMicros(call * BigInt(stepsMax))
  const all = product && (product.ok ? product.value : maxMoney)
  const bounds = [limit?.ok ? limit.value : null, all].filter((each) => each !== null)
  const worst = bounds.reduce<Money | null>((least, each) => (least === null || each < least ? each : least), null)
  const shown = (amount: Money | null) => (amount === null ? null : formatMoney(amount))
  return {
    limit_units: limit?.ok ? formatMoney(limit.value) : null,
    call_units: shown(call),
    calls_max: stepsMax,
    worst_case_units: shown(worst),
  }
}

/** A limit below the worst case of one call pays for none: the first one asks for more. */
async function previewRaise(
  commands: CommandDeps,
  by: Actor,
  { workspaceId, requestId }: AskPreflight,
  spend: Preflight['spend'],
): Promise<Preflight['approvals']> {
  const { limit_units: limit = null, call_units: call = null } = spend ?? {}
  if (limit === null || call === null || Number(call) <= Number(limit)) return []
  const agent = { tools: [], forbidden_tools: [], approval_gates: [], connectors: [], memory: { write_allowed: false } }
  const raise = await previewTool(commands, by, { workspaceId, requestId, toolName: RAISE_BUDGET, agent })
  if (!raise.ok) return []
  const why = `The limit of ${limit} units does not pay for a call of the model, which can cost ${call}.`
  return raise.value.approvals.flatMap((approval) =>
    approval.when === 'untrusted_content' ? [] : [{ needed_by: raise.value.taskName, ...approval, why }],
  )
}

function listUnknown(
  { kind, agents }: Planned,
  tools: readonly ToolPreview[],
  spend: Preflight['spend'],
): Preflight['unknown'] {
  if (kind === 'command') return []
  return [
    { what: 'Which tools are called, how often and with which arguments.', until: 'the agent calls them' },
    ...tools.flatMap(({ taskName, denied, input, isTried }) => [
      ...(isTried
        ? []
        : [{ what: `${taskName}: whether a call of it needs an approval.`, until: 'its arguments are known' }]),
      ...(denied?.when === 'arguments'
        ? [{ what: `${taskName}: policy denies it for some arguments.`, until: 'its arguments are known' }]
        : []),
      ...(input.length > 0
        ? [{ what: `${taskName}: a person supplies ${input.join(', ')}.`, until: 'the person answers' }]
        : []),
    ]),
    ...(spend?.worst_case_units === null
      ? [
          {
            what: `The cost: the agents have no limit of cost${asksFreely(agents) ? '' : ', and no model has a price'}.`,
            until: 'they end',
          },
        ]
      : []),
    ...(kind === 'swarm' ? [{ what: 'Which agents are started.', until: 'the swarm plans its work' }] : []),
  ]
}
