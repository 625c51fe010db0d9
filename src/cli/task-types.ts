/** `concord task-types`: lists the tasks that can be submitted, each with an example payload, and shows the contract of one. */
import type { taskTypeView } from '#domains/commands'
import { examplePayload } from '#kernel/example-payload'
import { didYouMean } from '#kernel/nearest'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer, type Page } from './client.ts'
import { type Add, addVerbs, listVerb, verb, type ViewOf } from './noun.ts'
import type { Cli } from './terminal.ts'

type TaskType = ViewOf<typeof taskTypeView>

const example = ({ payload_schema, required_inputs }: TaskType) =>
  JSON.stringify(examplePayload(payload_schema, required_inputs))

const list = listVerb<TaskType, []>({
  description: 'list the tasks that can be submitted, and which of them agents may propose',
  examples: ['concord task-types', 'concord task-types show "Book Hotel"'],
  at: () => '/task-types',
  none: () => 'This server has no tasks.',
  columns: {
    task: ({ task_name }) => task_name,
    risk: ({ risk_level }) => risk_level,
    // A policy may still ask for an approval where the contract does not.
    approval: ({ approval_required }) => (approval_required ? 'always' : 'by policy'),
    agents: ({ ingress_types }) => (ingress_types.includes('agent_action') ? 'may ask' : '-'),
    'example payload': example,
  },
})

const show = (cli: Cli): Add =>
  verb({
    description: 'show the whole contract of a task',
    examples: ['concord task-types show "Book Hotel"', 'concord task-types show refund --json'],
    ask: (name: string) => findTask(cli, name),
    say: formatTask,
  })

export const taskTypes: Add = (command, cli) => {
  list(command, cli)
  addVerbs(command, cli, { 'show <task>': show(cli) })
}

async function findTask(cli: Cli, name: string): Promise<Decision<TaskType>> {
  const answer = await askServer<Page<TaskType>>(cli, 'GET', '/task-types')
  if (!answer.ok) return answer
  const found = answer.value.items.find(({ task_name }) => task_name === name)
  if (found) return accept(found)
  return refuse('task_unknown', `There is no task ${quote(name)}.`, {
    path: '<task>',
    hint: '`concord task-types` lists them.',
    ...didYouMean(
      name,
      answer.value.items.map(({ task_name }) => task_name),
    ),
  })
}

function formatTask(task: TaskType): string {
  const list = (items: readonly string[]) => (items.length === 0 ? 'none' : items.join(', '))
  const minutes = task.approval_expires_in_minutes
  const rows: readonly (readonly [string, string])[] = [
    ['task', `${task.task_name}, version ${task.version}`],
    ['what', task.description],
    ['example', example(task)],
    ['risk', task.risk_level],
    ['effects', list(task.side_effects)],
    ['connectors', list(task.connector_requirements)],
    ['policies', list(task.policy_checks)],
    ['approval', `${task.approval_required ? 'always' : 'by policy'}, ${task.approver} unless a rule names somebody`],
    ['expires', minutes === null ? 'never' : `an approval after ${minutes} minutes`],
    ['key', task.key_template ?? 'only the one of the caller'],
    [
      'on failure',
      task.on_failure === 'undo' ? 'what was done is undone' : 'what was done stays until a person decides',
    ],
    ['on cancel', task.cancellation_mode === 'graceful' ? 'what was done stays' : 'what was done is undone'],
    ['undo', task.can_be_undone ? 'possible' : 'not possible'],
    ['cancelled by', list(task.cancellable_by)],
    ['asked by', list(task.ingress_types)],
    ['errors', list(task.error_classes)],
    ['recorded', list(task.audit)],
  ]
  const width = Math.max(...rows.map(([name]) => name.length))
  return rows.map(([name, text]) => `${name.padEnd(width)}  ${showLine(text)}\n`).join('')
}
