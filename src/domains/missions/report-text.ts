/** Which report follows from the end of a task, and the text of the report of a mission. Pure. */
import { cutText } from '#kernel/cut-text'
import { formatInstant } from '#kernel/instant'
import type { BrokenHook } from './auxiliary-rows.ts'
import type { StoredMission, StoredTask } from './mission.ts'

export const reportTypes = ['standup', 'research', 'incident', 'summary', 'delivery', 'audit'] as const
type ReportType = (typeof reportTypes)[number]

const typeOfTask = {
  research: 'research',
  analysis: 'research',
  writing: 'delivery',
  coding: 'delivery',
  verification: 'audit',
  review: 'audit',
  synthesis: 'summary',
  other: 'delivery',
} as const satisfies Record<StoredTask['task_type'], ReportType>

/** Null: a task that ended without an output and did not fail leaves no report. */
export function reportTypeOf({
  state,
  task_type,
  output_summary,
}: Pick<StoredTask, 'state' | 'task_type' | 'output_summary'>): ReportType | null {
  if (state === 'failed') return 'incident'
  return output_summary === null ? null : typeOfTask[task_type]
}

export const reportTypeOfMission = ({ state }: Pick<StoredMission, 'state'>): ReportType =>
  state === 'failed' ? 'incident' : 'summary'

/** Of each task the report shows the beginning of its output. The whole output is its artifact, or the result of its command. */
const SHOWN_CHARS = 400
const SHOWN_TASKS = 1_000

export function reportText(run: StoredMission, tasks: readonly StoredTask[], hooks: readonly BrokenHook[]): string {
  const facts = [
    ['State', run.state],
    ['Tasks', `${run.tasks_completed} of ${run.task_count} completed, ${run.tasks_failed} failed`],
    ['Cost', `${run.total_cost}, ${run.total_tokens} tokens`],
    ['Began', run.started_at && formatInstant(run.started_at)],
    ['Ended', run.completed_at && formatInstant(run.completed_at)],
    ['Error', run.error_message],
  ].flatMap(([name, value]) => (value === null ? [] : [`- ${name}: ${value}`]))
  const shown = tasks.slice(0, SHOWN_TASKS).map(sayTask)
  const left = tasks.length > SHOWN_TASKS ? [`${tasks.length - SHOWN_TASKS} more tasks are not shown here.`] : []
  const broken = hooks.map(
    ({ name, attempt, title, status, error }) =>
      `- ${name} of attempt ${attempt} of ${title}: ${status}. ${error ?? ''}`,
  )
  const failed = broken.length === 0 ? [] : ['## Hooks that failed', broken.join('\n')]
  return `${[`# ${run.title}`, run.goal, facts.join('\n'), '## Tasks', ...shown, ...left, ...failed].join('\n\n')}\n`
}

function sayTask(task: StoredTask): string {
  const { sequence_number, title, state, output_summary, output_ref, error_message, failure_type } = task
  const kind = failure_type === null ? '' : ` (${failure_type})`
  const said = state === 'completed' ? output_summary : (error_message ?? output_summary)
  return [
    `### ${sequence_number}. ${title}: ${state}${kind}`,
    ...(said === null ? [] : [cutText(said, SHOWN_CHARS)]),
    ...(output_ref === null ? [] : [`Output: ${output_ref}`]),
  ].join('\n\n')
}
