/** `concord missions pause`, `resume`, `cancel`, `approve`, `reject`, `retry`, `cancel-task` and `why`: what people do with a mission and its tasks. */
import type { explanationView } from '#domains/commands'
import type { explainedTaskView, missionDetailView, missionTaskView, missionView } from '#domains/missions'
import { decodeId } from '#kernel/ids'
import { didYouMean } from '#kernel/nearest'
import { type Decision, quote, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer, fieldsOf, pathOf } from './client.ts'
import { type Help, type Option, verb, type Verbs, type ViewOf } from './noun.ts'
import { bodyOf, readPlanFile } from './plan-file.ts'
import type { Cli } from './terminal.ts'

type MissionView = ViewOf<typeof missionView>
type TaskView = ViewOf<typeof missionTaskView>
type Explained = Pick<ViewOf<typeof explanationView>, 'summary'> | ViewOf<typeof explainedTaskView>

const ID = 'mission_0197f3b2c4d57a8e9b0c1d2e3f405161'
const reasonOption: Option = ['--reason <text>', 'the reason, for the record']

export function missionActionVerbs(cli: Cli): Verbs {
  const act = (name: string, description: string, more: { readonly example: string }) =>
    verb({
      description,
      options: [reasonOption],
      examples: [more.example],
      ask: (id: string, { reason }: { reason?: string }) =>
        askServer<MissionView>(cli, 'POST', pathOf('mission', id, `/${name}`), fieldsOf({ reason })),
      say: sayMission,
    })
  const decide = (name: 'approve' | 'reject', said: Help) =>
    verb({
      ...said,
      ask: async (id: string, task: string | undefined, { reason, retry }: { reason?: string; retry?: boolean }) =>
        askServer<MissionView | TaskView>(
          cli,
          'POST',
          task === undefined ? pathOf('mission', id, `/${name}`) : await taskPath(cli, id, task, name),
          fieldsOf({ reason, retry }),
        ),
      say: (decided) => ('task_id' in decided ? sayTask(decided) : sayMission(decided)),
    })
  const actOnTask = (name: 'retry' | 'cancel', description: string, example: string) =>
    verb({
      description,
      options: [reasonOption],
      examples: [example],
      ask: async (id: string, task: string, { reason }: { reason?: string }) =>
        askServer<TaskView>(cli, 'POST', await taskPath(cli, id, task, name), fieldsOf({ reason })),
      say: sayTask,
    })
  return {
    'pause <id>': act('pause', 'pause a mission: nothing new starts, and what runs may end', {
      example: `concord missions pause ${ID} --reason "the provider is down"`,
    }),
    'resume <id>': act('resume', 'resume a paused mission', {
      example: `concord missions resume ${ID} --reason "the provider is back"`,
    }),
    'cancel <id>': act('cancel', 'cancel a mission with its open tasks and their commands', {
      example: `concord missions cancel ${ID} --reason "wrong month"`,
    }),
    'approve <id> [task]': decide('approve', {
      description: 'approve the plan of a mission, or the output of a task, as `concord approve` does',
      options: [reasonOption],
      examples: [`concord missions approve ${ID} --reason "within the budget"`, `concord missions approve ${ID} notes`],
    }),
    'reject <id> [task]': decide('reject', {
      description: 'reject the plan of a mission, or the output of a task, as `concord deny` does',
      required: [reasonOption],
      options: [['--retry', 'the task runs again, with the reason']],
      examples: [
        `concord missions reject ${ID} --reason "too expensive"`,
        `concord missions reject ${ID} notes --retry --reason "the risks are missing"`,
      ],
    }),
    'change-plan <id>': verb({
      description: 'replace the plan before it starts, or add tasks while the mission runs',
      required: [
        ['--file <file>', 'the whole plan with the next version: JSON, .yaml, or .ndjson; - for standard input'],
      ],
      examples: [`concord missions change-plan ${ID} --file plan.json`],
      async ask(id: string, { file }: { file: string }) {
        const plan = await readPlanFile(cli.terminal, file)
        return plan.ok ? askServer<MissionView>(cli, 'PUT', pathOf('mission', id, '/plan'), bodyOf(plan.value)) : plan
      },
      say: (mission) => [`${mission.mission_id} ${mission.state}\n`, noteOf(mission)],
    }),
    'retry <id> <task>': actOnTask(
      'retry',
      'begin the next attempt of a task at once',
      `concord missions retry ${ID} notes --reason "the provider is back"`,
    ),
    'cancel-task <id> <task>': actOnTask(
      'cancel',
      'cancel a task with its command; what depends on it is skipped, unless its rule says otherwise',
      `concord missions cancel-task ${ID} send --reason "not needed"`,
    ),
    'why <id> [task]': verb({
      description: 'explain where a mission or one of its tasks stands: what it waits for, who is asked, what ended it',
      examples: [`concord missions why ${ID}`, `concord missions why ${ID} notes`],
      ask: async (id: string, task: string | undefined) =>
        askServer<Explained>(
          cli,
          'GET',
          task === undefined ? await explanationPath(cli, id) : await taskPath(cli, id, task, 'why'),
        ),
      say: ({ summary }) => `${showLine(summary)}\n`,
    }),
  }
}

const NAMES_SHOWN = 10

/** A task is named by its id, or by its temporary id in the plan. */
async function taskPath(cli: Cli, id: string, task: string, name: string): Promise<Decision<string>> {
  const at = (taskId: string) => pathOf('mission', id, `/tasks/${encodeURIComponent(taskId)}/${name}`)
  if (decodeId('mission_task', task).ok) return at(task)
  const mission = await askServer<ViewOf<typeof missionDetailView>>(cli, 'GET', pathOf('mission', id))
  if (!mission.ok) return mission
  const { tasks } = mission.value
  const found = tasks.find(({ temp_id }) => temp_id === task)
  if (found) return at(found.task_id)
  const names = tasks.map(({ temp_id }) => temp_id)
  const more = names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : ''
  const known =
    names.length === 0
      ? 'It has no tasks before its start.'
      : `It has ${names.slice(0, NAMES_SHOWN).join(', ')}${more}.`
  const { hint: near } = didYouMean(task, names)
  return refuse('missions.task.not_found', `The mission has no task ${quote(task)}.`, {
    path: '<task>',
    hint: near === undefined ? known : `${near} ${known}`,
  })
}

/** The command of a mission knows everything that the mission waits for. */
async function explanationPath(cli: Cli, id: string): Promise<Decision<string>> {
  const mission = await askServer<MissionView>(cli, 'GET', pathOf('mission', id))
  return mission.ok ? pathOf('command', mission.value.command_id, '/explanation') : mission
}

const sayMission = (mission: MissionView) => [`${mission.mission_id} ${mission.state}\n`, noteOf(mission)] as const
const sayTask = ({ task_id, state }: TaskView) => `${task_id} ${state}\n`

function noteOf(mission: MissionView): string {
  const next = sayNext(mission)
  return next === null ? '' : `next: ${next}\n`
}

/** What people can do now, as verbs of this program, and who. */
export function sayNext({
  mission_id,
  next,
  tasks = [],
}: Pick<MissionView, 'mission_id' | 'next'> & { readonly tasks?: readonly TaskView[] }): string | null {
  const failed = tasks.find(({ state }) => state === 'failed')?.temp_id ?? '<task>'
  const flags: Partial<Record<(typeof next)[number]['do'], string>> = {
    raise_budget: ' --hard-limit <amount>',
    fork: ` --from ${showLine(failed)}`,
  }
  const lines = next.map(({ do: action, who, words }) => {
    const name = action === 'raise_budget' ? 'budget' : action
    return `concord missions ${name} ${mission_id}${flags[action] ?? ''}  (${showLine(who)}: ${showLine(words)})`
  })
  return lines.length === 0 ? null : lines.join('\n')
}
