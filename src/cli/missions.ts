/** `concord missions`: creates missions from a plan, and shows how far they are. */
import type {
  missionDetailView,
  missionEventView,
  missionGraphView,
  missionReportView,
  missionTaskView,
  missionView,
  outcomesView,
} from '#domains/missions'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { showLine, showText } from '#kernel/visible-text'
import { askServer, fieldsOf, type Page, pathOf, queryOf, watchUntil } from './client.ts'
import { drawSvg } from './graph-svg.ts'
import { drawMermaid } from './lineage.ts'
import { missionActionVerbs, sayNext } from './mission-actions.ts'
import { type Fact, formatFacts } from './layout.ts'
import { missionPreflight } from './mission-preflight.ts'
import { readConfigFlag, readPlanFile, withPlan } from './plan-file.ts'
import { action, listVerb, noun, type PageFlags, paging, table, verb, type ViewOf, type When } from './noun.ts'
import type { Cli, Terminal, VerbResult } from './terminal.ts'
import { sayClock, sayTime } from './times.ts'

type MissionView = ViewOf<typeof missionView>
type MissionDetail = ViewOf<typeof missionDetailView>
type TaskView = ViewOf<typeof missionTaskView>
type PlanTask = NonNullable<MissionDetail['plan']>['tasks'][number]
type MissionGraph = ViewOf<typeof missionGraphView>
type MissionReport = ViewOf<typeof missionReportView>
type EventView = ViewOf<typeof missionEventView>

const ID = 'mission_0197f3b2c4d57a8e9b0c1d2e3f405161'

type CreateFlags = { goal: string; file: string; title?: string; config?: string; key?: string }

type Outcomes = ViewOf<typeof outcomesView>
type Outcome = Outcomes['items'][number]

const ofOutcomes = {
  agent: ({ agent }: Outcome) => agent,
  model: ({ model }: Outcome) => model ?? '',
  type: ({ task_type }: Outcome) => task_type,
  success: ({ completed, ended }: Outcome) => `${completed}/${ended}`,
  'at least': ({ success_at_least }: Outcome) => `${Math.floor(success_at_least * 100)} %`,
  cost: ({ mean_cost }: Outcome) => mean_cost,
  time: ({ median_duration_ms: ms }: Outcome) => (ms === null ? '' : `${Math.round(ms / 1_000)} s`),
  score: ({ mean_score }: Outcome) => (mean_score === null ? '' : mean_score.toFixed(2)),
}

type Suggestion = NonNullable<Outcomes['suggestions']>['agents'][number] & { readonly what: string }
const ofSuggestions = {
  prefer: ({ what }: Suggestion) => what,
  name: ({ name }: Suggestion) => name,
  success: ({ completed, ended }: Suggestion) => `${completed}/${ended}`,
  'at least': ({ success_at_least }: Suggestion) => `${Math.floor(success_at_least * 100)} %`,
}

type ForkFlags = { from: string; refire?: readonly string[]; file?: string; config?: string }

export const missions = noun('plans of tasks towards a goal', (cli) => ({
  create: verb({
    description: 'create a mission from a plan; a person approves the plan first',
    required: [
      ['--goal <text>', 'what is to be reached'],
      ['--file <file>', 'the plan: JSON, .yaml, or .ndjson (one task a line); - for standard input'],
    ],
    options: [
      ['--title <text>', 'default: the first line of the goal'],
      ['--config <json>', 'settings, as a JSON object'],
      ['--key <key>', 'idempotency key: the same key is the same mission'],
    ],
    examples: [
      'concord missions create --goal "Release 2.4" --file plan.yaml',
      `concord missions create --goal "Release 2.4" --file plan.json --config '{"autonomy":"full_auto"}'`,
    ],
    async ask({ goal, file, title, config, key }: CreateFlags) {
      const plan = await readPlanFile(cli.terminal, file)
      if (!plan.ok) return plan
      const settings = readConfigFlag(config)
      if (!settings.ok) return settings
      const fields = fieldsOf({ goal, title, config: settings.value, idempotency_key: key })
      return askServer<MissionView>(cli, 'POST', '/missions', withPlan(fields, plan.value))
    },
    say: ({ mission_id, warnings }) => [
      `${mission_id}\n`,
      [...warnings.map(showLine), `\`concord missions watch ${mission_id}\` shows how it goes on`, ''].join('\n'),
    ],
  }),
  preflight: missionPreflight(cli, ID),
  list: listVerb<MissionView, [PageFlags & { state?: string; search?: string }]>({
    description: 'list the missions of the workspace, newest first',
    options: [
      ...paging,
      ['--state <state>', 'only missions in this state, like awaiting_approval'],
      ['--search <words>', 'only missions whose goal has these words'],
    ],
    examples: ['concord missions list --state running', 'concord missions list --search "release notes"'],
    at: ({ state, search, limit, cursor }) => `/missions${queryOf({ state, search, limit, cursor })}`,
    none: () => 'There are none.',
    columns: {
      mission: ({ mission_id }) => mission_id,
      title: ({ title }) => title,
      state: ({ state }) => state,
      tasks: ({ progress }) => sayProgress(progress),
      created: ({ created_at }, when) => when(created_at),
    },
  }),
  'show <id>': verb({
    description: 'show a mission with its tasks',
    examples: [`concord missions show ${ID}`],
    ask: (id: string) => askServer<MissionDetail>(cli, 'GET', pathOf('mission', id)),
    say: (mission) => formatMission(cli.terminal, mission),
  }),
  'graph <id>': verb<[string, { mermaid?: boolean; svg?: boolean }], MissionGraph>({
    description: 'show the tasks of a mission with their states and what each waits for',
    options: [
      ['--mermaid', 'as a Mermaid graph'],
      ['--svg', 'as an SVG picture'],
    ],
    examples: [`concord missions graph ${ID} --mermaid`, `concord missions graph ${ID} --svg > graph.svg`],
    async ask(id) {
      const graph = await askServer<MissionGraph>(cli, 'GET', pathOf('mission', id, '/graph'))
      if (!graph.ok || graph.value.nodes.length > 0) return graph
      const mission = await askServer<MissionDetail>(cli, 'GET', pathOf('mission', id))
      return mission.ok ? accept(graphOfPlan(mission.value.plan?.tasks ?? [])) : mission
    },
    say: (graph, _, { mermaid, svg }) =>
      svg === true ? drawSvg(graph) : mermaid === true ? drawMermaid(graph) : drawTasks(graph),
  }),
  'report <id>': verb({
    description: 'print the report of a mission that has ended',
    examples: [`concord missions report ${ID}`],
    ask: (id: string) => askServer<MissionReport>(cli, 'GET', pathOf('mission', id, '/report')),
    say: ({ text, title }) => (text === null ? ['', `The report ${showLine(title)} has no text.\n`] : showText(text)),
  }),
  outcomes: verb({
    description: 'compare how tasks ended, by agent, model and type of task; best first',
    options: [
      ['--task-type <type>', 'only tasks of this type, like writing'],
      ['--suggest', 'the agents and models to prefer'],
    ],
    examples: ['concord missions outcomes --task-type writing --suggest'],
    ask: ({ taskType, suggest }: { taskType?: string; suggest?: boolean }) =>
      askServer<Outcomes>(
        cli,
        'GET',
        `/missions/outcomes${queryOf({ task_type: taskType, suggest: suggest ? 'true' : undefined })}`,
      ),
    say: ({ items, suggestions }) => {
      if (items.length === 0) return 'No task has ended yet.\n'
      if (!suggestions) return table(cli.terminal, ofOutcomes, items)
      const named = [
        ...suggestions.agents.map((each) => ({ what: 'agent', ...each })),
        ...suggestions.models.map((each) => ({ what: 'model', ...each })),
      ]
      return table(cli.terminal, ofSuggestions, named)
    },
  }),
  'fork <id>': verb({
    description: 'run a mission again from one of its tasks; the rest is carried over with its outputs',
    required: [['--from <task>', 'the temp_id of the first task that runs again']],
    options: [
      ['--refire <task...>', 'tasks whose effects stand and may be done again'],
      ['--file <file>', 'another plan: JSON, .yaml, or .ndjson; - for standard input'],
      ['--config <json>', 'settings, as a JSON object'],
    ],
    examples: [`concord missions fork ${ID} --from send --refire send`],
    async ask(id: string, { from, refire, file, config }: ForkFlags) {
      const plan = file === undefined ? undefined : await readPlanFile(cli.terminal, file)
      if (plan && !plan.ok) return plan
      const settings = readConfigFlag(config)
      if (!settings.ok) return settings
      const fields = fieldsOf({ from, refire, config: settings.value })
      const body = plan ? withPlan(fields, plan.value) : fields
      return askServer<MissionView>(cli, 'POST', pathOf('mission', id, '/fork'), body)
    },
    say: ({ mission_id }) => [`${mission_id}\n`, `\`concord missions watch ${mission_id}\` shows how it goes on\n`],
  }),
  'save-recipe <id>': verb({
    description: 'save the plan of a completed mission as a recipe, to run it again',
    options: [['--name <text>', 'default: the title of the mission']],
    examples: [`concord missions save-recipe ${ID} --name "Release"`],
    ask: (id: string, { name }: { name?: string }) =>
      askServer<{ recipe_id: number }>(cli, 'POST', pathOf('mission', id, '/save-recipe'), fieldsOf({ name })),
    say: ({ recipe_id }) => [`${recipe_id}\n`, `\`concord recipes run ${recipe_id}\` runs it again\n`],
  }),
  'budget <id>': verb({
    description: 'raise the hard limit of a mission; one that stands above its budget goes on',
    required: [['--hard-limit <amount>', 'the new limit, such as 20.00']],
    examples: [`concord missions budget ${ID} --hard-limit 20.00`],
    ask: (id: string, { hardLimit }: { hardLimit: string }) =>
      askServer<MissionView>(cli, 'POST', pathOf('mission', id, '/budget'), { hard_limit: hardLimit }),
    say: ({ state, budget }) => `${state}; ${sayBudget(budget)}\n`,
  }),
  'watch <id>': action({
    description: 'print the events of a mission as they happen, until it ends',
    examples: [`concord missions watch ${ID}`],
    run: (id) => watchMission(cli, String(id)),
  }),
  ...missionActionVerbs(cli),
}))

/** Before the plan is approved there are no tasks yet, so their names in the plan are their ids. */
function graphOfPlan(tasks: readonly PlanTask[]): MissionGraph {
  return {
    nodes: tasks.map(({ temp_id, title }) => ({ id: temp_id, temp_id, label: title, status: 'pending' })),
    edges: tasks.flatMap(({ temp_id, depends_on }) =>
      depends_on.map((each) =>
        typeof each === 'string'
          ? { from: each, to: temp_id, how: 'data' as const }
          : { from: each.task, to: temp_id, how: each.type },
      ),
    ),
  }
}

/** One line a task, in the order of the plan, with the tasks that it waits for. */
function drawTasks({ nodes, edges }: MissionGraph): string {
  const names = new Map(nodes.map(({ id, temp_id }) => [id, temp_id]))
  const lines = nodes.map(({ id, temp_id, label, status }) => {
    const before = edges.flatMap(({ from, to }) => (to === id ? (names.get(from) ?? []) : []))
    const after = before.length === 0 ? '' : `  after ${before.join(', ')}`
    return `${showLine(temp_id)}  ${showLine(label)} (${status.replaceAll('_', ' ')})${showLine(after)}\n`
  })
  return lines.join('')
}

const sayBudget = (budget: MissionView['budget']) =>
  budget === null ? null : `${budget.spent} spent, ${budget.reserved} reserved of ${budget.limit}`

function sayProgress({ tasks, completed, failed }: MissionView['progress']): string {
  return `${completed}/${tasks}${failed === 0 ? '' : `, ${failed} failed`}`
}

const ofTasks = {
  '#': ({ sequence_number }: TaskView) => String(sequence_number),
  task: ({ temp_id }: TaskView) => temp_id,
  title: ({ title }: TaskView) => title,
  state: ({ state }: TaskView) => state,
  runs: ({ run }: TaskView) => run,
  command: ({ command_id }: TaskView) => command_id,
  ended: ({ completed_at }: TaskView, when: When) => (completed_at === null ? null : when(completed_at)),
}

/** Before the plan is approved there are no tasks yet. */
const ofPlan = {
  task: ({ temp_id }: PlanTask) => temp_id,
  title: ({ title }: PlanTask) => title,
  after: ({ depends_on }: PlanTask) =>
    depends_on.map((each) => (typeof each === 'string' ? each : each.task)).join(', '),
  runs: ({ run }: PlanTask) => run.task ?? run.agent ?? `worker:${run.worker}`,
  with: ({ run }: PlanTask) => JSON.stringify(run.payload),
}

function formatMission(terminal: Terminal, mission: MissionDetail): string {
  const when = (instant: string | null) => (instant === null ? null : sayTime(terminal, instant))
  const planned = mission.plan?.tasks ?? []
  const facts = formatFacts(terminal, 9, [
    ['mission', mission.mission_id],
    ['command', mission.command_id],
    ['goal', showLine(mission.goal)],
    ['state', mission.state],
    ['tasks', sayProgress({ ...mission.progress, tasks: mission.progress.tasks || planned.length })],
    ['budget', sayBudget(mission.budget)],
    ['result', mission.result_summary],
    ['error', mission.error && showLine(mission.error)],
    ['careful', mission.warnings.map(showLine).join('\n')],
    ['began', when(mission.started_at)],
    ['ended', when(mission.completed_at)],
    ['next', sayNext(mission)],
  ])
  const tasks = mission.tasks.length === 0 ? table(terminal, ofPlan, planned) : table(terminal, ofTasks, mission.tasks)
  const errors = mission.tasks.flatMap(({ temp_id, error }): Fact[] =>
    error === null ? [] : [['error', showLine(`${temp_id}: ${error}`)]],
  )
  return `${showLine(mission.title)}\n${facts}\n${tasks}${formatFacts(terminal, 9, errors)}`
}

/** A task that nobody verified is completed, not verified. */
function sayEvent({ type, task_title, payload }: EventView): string {
  const isUnverified = type === 'task_verification_passed' && payload['score'] === null
  const cause = payload['error_message'] ?? payload['reason'] ?? payload['skipped_because']
  return [isUnverified ? 'task completed' : type.replaceAll('_', ' '), task_title, cause]
    .filter((part) => typeof part === 'string' && part !== '')
    .join(': ')
}

function watchMission(cli: Cli, id: string): Promise<VerbResult> {
  let cursor: string | null = null
  let seen = '0'
  return watchUntil(cli.terminal, async () => {
    const mission = await askServer<MissionView>(cli, 'GET', pathOf('mission', id))
    if (!mission.ok) return mission
    for (let isMore = true; isMore; ) {
      const page: Decision<Page<EventView>> = await askServer(
        cli,
        'GET',
        pathOf('mission', id, `/events${queryOf({ cursor })}`),
      )
      if (!page.ok) return page
      for (const event of page.value.items) {
        if (BigInt(event.event_id) <= BigInt(seen)) continue
        seen = event.event_id
        cli.terminal.out(
          cli.isJson()
            ? `${JSON.stringify(event)}\n`
            : `${sayClock(cli.terminal, event.created_at)}  ${showLine(sayEvent(event))}\n`,
        )
      }
      isMore = page.value.next_cursor !== null
      cursor = page.value.next_cursor ?? cursor
    }
    if (mission.value.state_type !== 'terminal') return undefined
    const { state, error } = mission.value
    if (state !== 'completed')
      return refuse('cli.mission.not_completed', `The mission is ${state}${error === null ? '.' : `: ${error}`}`, {
        facts: { mission_id: mission.value.mission_id, state },
      })
    cli.terminal.err(`${state}\n`)
    return accept(undefined)
  })
}
