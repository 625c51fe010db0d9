/** `concord swarms`: shows swarms, the tree of their agents and how they were joined. */
import type { swarmDetailView, swarmView } from '#domains/agents'
import { formatMoney, parseMoney, sumMoney } from '#kernel/money'
import { showLine } from '#kernel/visible-text'
import { askServer, pathOf, queryOf } from './client.ts'
import { formatFacts } from './layout.ts'
import { listVerb, noun, type PageFlags, paging, table, verb, type ViewOf } from './noun.ts'
import { colorsOf, type Terminal, wordsOf } from './terminal.ts'
import { sayTime } from './times.ts'

type SwarmView = ViewOf<typeof swarmView>
type SwarmDetail = ViewOf<typeof swarmDetailView>
type Member = SwarmDetail['agents'][number]

const ID = 'swarm_0197f3b2c4d57a8e9b0c1d2e3f405181'

export const swarms = noun('show swarms of agents', (cli) => ({
  list: listVerb<SwarmView, [PageFlags]>({
    description: 'list the swarms of the workspace, newest first',
    options: paging,
    examples: ['concord swarms list'],
    at: ({ limit, cursor }) => `/swarms${queryOf({ limit, cursor })}`,
    none: () => 'There are none.',
    columns: {
      swarm: ({ swarm_run_id }) => swarm_run_id,
      name: ({ name }) => name,
      status: ({ status, end_reason }) => sayEnd(status, end_reason),
      started: ({ created_at }, when) => when(created_at),
    },
  }),
  'show <id>': verb({
    description: 'show a swarm: the tree of its agents, what they cost, the proof of their authority, its join',
    examples: [`concord swarms show ${ID}`],
    ask: (id: string) => askServer<SwarmDetail>(cli, 'GET', pathOf('swarm_run', id)),
    say: (swarm) => formatSwarm(cli.terminal, swarm),
  }),
}))

/** These reasons say no more than the status does. */
const usual = ['joined', 'final_answer_created', 'join_decided']

function sayEnd(status: string, reason: string | null): string {
  return reason === null || usual.includes(reason) ? wordsOf(status) : `${wordsOf(status)}: ${wordsOf(reason)}`
}

function formatSwarm(terminal: Terminal, swarm: SwarmDetail): string {
  const { join, limits, agents } = swarm
  const unproven = agents.filter(({ is_proven }) => !is_proven).map(({ agent_run_id }) => agent_run_id)
  const depth = Math.max(...agents.map(({ spawn_depth }) => spawn_depth))
  const steps = agents.reduce((sum, { step_count }) => sum + step_count, 0)
  const facts = formatFacts(terminal, 9, [
    ['swarm', swarm.swarm_run_id],
    ['command', swarm.command_id],
    ['status', sayEnd(swarm.status, swarm.end_reason)],
    ['objective', showLine(swarm.objective)],
    ['mode', `${wordsOf(swarm.execution_mode)}, joined by ${wordsOf(swarm.join_strategy)}`],
    ['agents', `${agents.length} of ${limits.max_agents}, depth ${depth} of ${limits.max_depth}`],
    ['steps', `${steps} of ${limits.max_total_steps}`],
    ['cost', `${costOf(agents)}${limits.max_cost_units === null ? '' : ` of ${limits.max_cost_units}`}`],
    ['started', sayTime(terminal, swarm.created_at)],
    ['deadline', swarm.deadline_at && sayTime(terminal, swarm.deadline_at)],
    ['ended', swarm.completed_at && sayTime(terminal, swarm.completed_at)],
    ['result', join && `${wordsOf(join.decision)}: ${showLine(join.summary)}`],
    ['selected', join?.selected_artifact_id],
    ['authority', unproven.length === 0 ? 'proven for every agent' : `NOT PROVEN: ${unproven.join(', ')}`],
  ])
  return `${showLine(swarm.name)}\n${facts}\n${formatTree(terminal, swarm)}`
}

function costOf(agents: readonly Member[]): string {
  const costs = agents.map(({ cost_units }) => parseMoney(cost_units))
  const sum = sumMoney(costs.flatMap((cost) => (cost.ok ? [cost.value] : [])))
  return sum.ok ? formatMoney(sum.value) : ''
}

/** One line for each agent, below the one that started it; its id is on a line of its own, so that it is never cut. */
function formatTree(terminal: Terminal, { agents, join }: SwarmDetail): string {
  const lines = agents
    .filter(({ parent_agent_run_id }) => parent_agent_run_id === null)
    .flatMap((top) => branch(top, ''))
  const [head, ...rows] = table(terminal, columnsOf(join?.losers ?? []), lines).split('\n')
  const { dim } = colorsOf(terminal)
  const below = (at: number) => `${lines[at]?.below}${dim(lines[at]?.member.agent_run_id ?? '')}\n`
  return `${head}\n${lines.map((_, at) => `${rows[at]}\n${below(at)}`).join('')}`

  function branch(member: Member, before: string, mark = '', after = ''): readonly Line[] {
    const children = agents.filter(({ parent_agent_run_id }) => parent_agent_run_id === member.agent_run_id)
    const inner = `${before}${after}`
    return [
      { member, label: `${before}${mark}${member.agent_name}`, below: `${inner}${children.length > 0 ? '│ ' : '  '}` },
      ...children.flatMap((child, at) =>
        at === children.length - 1 ? branch(child, inner, '└ ', '  ') : branch(child, inner, '├ ', '│ '),
      ),
    ]
  }
}

type Line = { readonly member: Member; readonly label: string; readonly below: string }

const columnsOf = (losers: readonly string[]) => ({
  agent: ({ label }: Line) => label,
  role: ({ member }: Line) => member.agent_role,
  status: ({ member: { agent_run_id, status, end_reason } }: Line) =>
    sayEnd(status, losers.includes(agent_run_id) ? 'lost' : end_reason),
  steps: ({ member: { step_count, max_steps } }: Line) => `${step_count}/${max_steps}`,
  cost: ({ member }: Line) => member.cost_units,
})
