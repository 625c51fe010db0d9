/** `concord agents`: the runs of agents, their steps, and what they wait for. */
import type { agentMessageView, agentRunDetailView, agentRunView, agentStepView } from '#domains/agents'
import type { cancelledView } from '#domains/commands'
import { accept, type Decision } from '#kernel/refusal'
import { showLine, showText } from '#kernel/visible-text'
import { type AuthorityChain, formatAuthority, formatProofs, judgeAuthority } from './authority.ts'
import { askServer, fieldsOf, listAll, type Page, pathOf, queryOf, watchUntil } from './client.ts'
import type { CommandView } from './command-view.ts'
import { formatFacts } from './layout.ts'
import { action, listVerb, noun, type PageFlags, paging, table, verb, type ViewOf, type When } from './noun.ts'
import type { Cli, Terminal, VerbResult } from './terminal.ts'
import { sayTime } from './times.ts'

type RunView = ViewOf<typeof agentRunView>
type RunDetail = ViewOf<typeof agentRunDetailView>
type StepView = ViewOf<typeof agentStepView>
type MessageView = ViewOf<typeof agentMessageView>

const ID = 'agent_0197f3b2c4d57a8e9b0c1d2e3f405161'

export const agents = noun('runs of agents: what they do, and what they wait for', (cli) => ({
  list: listVerb<RunView, [PageFlags & { status?: string }]>({
    description: 'list the runs of the workspace, newest first',
    options: [...paging, ['--status <status>', 'only runs in this state, like waiting_for_approval']],
    examples: ['concord agents list --status waiting_for_approval'],
    at: ({ status, limit, cursor }) => `/agent-runs${queryOf({ status, limit, cursor })}`,
    none: () => 'There are none.',
    columns: {
      agent: ({ agent_name }) => agent_name,
      status: ({ status, end_reason }) => sayEnd(status, end_reason === 'final_answer_created' ? null : end_reason),
      steps: ({ step_count, max_steps }) => `${step_count}/${max_steps}`,
      cost: ({ cost_units }) => cost_units,
    },
    below: ({ agent_run_id, created_at }, when) => `${agent_run_id}  ${when(created_at)}`,
  }),
  'show <id>': verb({
    description: 'show a run: goal, tools, limits, state, and its answer if you may read it',
    examples: [`concord agents show ${ID}`],
    ask: (id: string) => askServer<RunDetail>(cli, 'GET', pathOf('agent_run', id)),
    async say(run) {
      const answer = run.status === 'succeeded' ? await findAnswer(cli, run.agent_run_id) : undefined
      const waits = run.status.startsWith('waiting_for_') ? await findWaits(cli, run.command_id) : undefined
      return formatRun(cli.terminal, run, { answer, waits })
    },
  }),
  'steps <id>': verb({
    description: 'list the steps of a run: tool, decision, command, tokens and cost',
    examples: [`concord agents steps ${ID}`],
    ask: (id: string) => listOf<StepView>(cli, id, '/steps'),
    say: ({ items }) => (items.length === 0 ? ['', 'It has made no step.\n'] : formatSteps(cli.terminal, items)),
  }),
  'messages <id>': verb({
    description: 'show the conversation of a run, for its requester and administrators',
    examples: [`concord agents messages ${ID}`],
    ask: (id: string) => listOf<MessageView>(cli, id, '/messages'),
    say: ({ items }) => items.map((message) => `${message.role}: ${showLine(textOf(message.content))}\n`).join(''),
  }),
  'watch <id>': action({
    description: 'print the steps of a run as they are made, until it ends',
    examples: [`concord agents watch ${ID}`],
    run: (id) => watchRun(cli, String(id)),
  }),
  'verify [id]': verb({
    description: 'prove what a run may do, link by link, up to the person who asked for it; without an id, all runs',
    examples: [`concord agents verify ${ID}`, 'concord agents verify'],
    ask: (id: string | undefined) => (id === undefined ? proveAll(cli) : prove(cli, id)),
    say: (proven) => ('items' in proven ? formatProofs(cli.terminal, proven) : formatAuthority(cli, proven)),
    judge: (proven) => judgeAuthority('items' in proven ? proven.items : [proven]),
  }),
  'cancel <id>': verb({
    description: 'cancel a run with its command; its open calls are cancelled first',
    options: [['--reason <text>', 'for the audit']],
    examples: [`concord agents cancel ${ID} --reason "wrong month"`],
    async ask(id: string, { reason }: { reason?: string }) {
      const run = await askServer<RunView>(cli, 'GET', pathOf('agent_run', id))
      if (!run.ok) return run
      const path = pathOf('command', run.value.command_id, '/cancel')
      return askServer<ViewOf<typeof cancelledView>>(cli, 'POST', path, fieldsOf({ reason }))
    },
    say: ({ status, changed }, id) =>
      changed ? `${id} ends; its command is ${showLine(status)}\n` : `${id} had ended; nothing was changed\n`,
  }),
}))

const stepColumns = {
  step: ({ step_index }: StepView) => String(step_index),
  action: ({ action_type }: StepView) => action_type,
  tool: ({ tool_name }: StepView) => tool_name,
  decision: ({ decision }: StepView) => decision,
  cost: ({ cost_units }: StepView) => cost_units,
}

function formatSteps(terminal: Terminal, steps: readonly StepView[]): string {
  const below = ({ command_id, created_at }: StepView, when: When) =>
    [command_id, when(created_at)].filter(Boolean).join('  ')
  return table(terminal, stepColumns, steps, { below })
}

async function listOf<Item>(cli: Cli, id: string, part: '/steps' | '/messages') {
  const path = pathOf('agent_run', id, part)
  return path.ok ? listAll<Item>(cli, path.value) : path
}

type Proven = AuthorityChain | Page<AuthorityChain>

function prove(cli: Cli, id: string): Promise<Decision<Proven>> {
  return askServer<AuthorityChain>(cli, 'GET', pathOf('agent_run', id, '/authority'))
}

async function proveAll(cli: Cli): Promise<Decision<Proven>> {
  const runs = await listAll<RunView>(cli, '/agent-runs')
  if (!runs.ok) return runs
  const items: AuthorityChain[] = []
  for (const { agent_run_id } of runs.value.items) {
    const proven = await askServer<AuthorityChain>(cli, 'GET', pathOf('agent_run', agent_run_id, '/authority'))
    if (!proven.ok) return proven
    items.push(proven.value)
  }
  return accept({ ...runs.value, items })
}

function sayEnd(status: string, reason: string | null): string {
  return reason === null ? status : `${status}: ${reason.replaceAll('_', ' ')}`
}

function textOf(content: unknown): string {
  return content === null ? 'erased' : typeof content === 'string' ? content : JSON.stringify(content)
}

/** The final answer of a run. Undefined: there is none, it was erased, or the reader may not see it. */
async function findAnswer(cli: Cli, id: string): Promise<string | undefined> {
  const page: { readonly ok: boolean; readonly value?: Page<MessageView> } = await listOf<MessageView>(
    cli,
    id,
    '/messages',
  )
  const last = page.value?.items.findLast(({ type }) => type === 'result')
  const content = last?.content as { readonly final?: unknown } | null | undefined
  return content?.final === undefined ? undefined : textOf(content.final)
}

/** What the command of a waiting run waits for, and by whom. Undefined: nobody can do anything, or the reader may not see it. */
async function findWaits(cli: Cli, commandId: string): Promise<string | undefined> {
  const command = await askServer<CommandView>(cli, 'GET', pathOf('command', commandId))
  if (!command.ok) return undefined
  const waits = command.value.next.filter(({ action: move }) => move !== 'cancel')
  return waits.map(({ what, by }) => showLine(`${what} (${by.join(', ')})`)).join('\n')
}

type Found = { readonly answer: string | undefined; readonly waits: string | undefined }

function formatRun(terminal: Terminal, run: RunDetail, { answer, waits }: Found): string {
  const when = (instant: string | null) => (instant === null ? null : sayTime(terminal, instant))
  const { max_cost_units: max } = (run.manifest['limits'] ?? {}) as { readonly max_cost_units?: unknown }
  const facts = formatFacts(terminal, 10, [
    ['run', run.agent_run_id],
    ['command', run.command_id],
    ['role', run.agent_role],
    ['status', sayEnd(run.status, run.end_reason)],
    ['waits for', waits],
    ['error', run.error],
    ['goal', showLine(run.goal)],
    ['tools', run.allowed_tools.join(', ')],
    ['forbidden', run.forbidden_tools.join(', ') || null],
    ['steps', `${run.step_count} of ${run.max_steps}`],
    ['cost', run.cost_units],
    ['cost limit', typeof max === 'number' ? `${max}; \`concord budgets show\` shows if people have raised it` : null],
    ['started', when(run.started_at)],
    ['deadline', when(run.deadline_at)],
    ['ended', when(run.completed_at)],
    ['answer', answer],
  ])
  return `${showLine(run.agent_name)}\n${facts}`
}

function watchRun(cli: Cli, id: string): Promise<VerbResult> {
  let [shown, last] = [0, '']
  return watchUntil(cli.terminal, async () => {
    const run = await askServer<RunView>(cli, 'GET', pathOf('agent_run', id))
    if (!run.ok) return run
    const steps = await listOf<StepView>(cli, id, '/steps')
    if (!steps.ok) return steps
    for (const step of steps.value.items.slice(shown)) {
      const line = [String(step.step_index), step.action_type, step.tool_name, step.decision, step.command_id]
      cli.terminal.out(cli.isJson() ? `${JSON.stringify(step)}\n` : `${showLine(line.filter(Boolean).join(' '))}\n`)
    }
    shown = steps.value.items.length
    const { status, end_reason } = run.value
    if (status !== last) cli.terminal.err(`${sayEnd(status, end_reason)}\n`)
    last = status
    return end_reason === null ? undefined : accept(undefined)
  })
}

/** The answer of the run that a result names, as a line below it. A result has only its digest, because an answer can be erased. */
export async function formatAnswer(cli: Cli, result: unknown): Promise<string> {
  const { agent_run_id: id, answer } = (result ?? {}) as { readonly agent_run_id?: unknown; readonly answer?: unknown }
  if (typeof id !== 'string' || typeof answer !== 'object' || answer === null) return ''
  const text = await findAnswer(cli, id)
  return text === undefined ? '' : `\nanswer of the agent\n${showText(text).trimEnd()}\n`
}
