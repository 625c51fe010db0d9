/** Why a mission or a task stands where it stands: what it waits for, who is asked, or what ended it. */
import { showActor } from '#domains/approvals'
import { validateGraph } from '#kernel/dag/graph'
import { whyBlocked } from '#kernel/dag/readiness'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { accept, type Decision, quote } from '#kernel/refusal'
import { sayState } from '#kernel/say-state'
import { type Db, scoped, statement } from '#store'
import { findTaskWithRun, type OfTask } from './act-on-task.ts'
import type { ExplainedTask } from './contract.ts'
import { type FailingTask, findCause, listDownstreamOf, listUpstreamOf } from './mission-task.ts'
import { findMissionOfCommand, type StoredMission, type StoredTask } from './mission.ts'
import { findAsked, sayHeld } from './next-steps.ts'
import { nodeStateOf } from './plan-rows.ts'

type Upstream = ExplainedTask['upstream'][number]
type AskedNow = Awaited<ReturnType<typeof findAsked>>

/** $1 command. */
const findStatus = statement<{ readonly status: string }>(
  'missions.find_command_status',
  `select c.status from concord.commands as c where c.command_id = $1::uuid`,
)

type Question = { readonly title: string | null; readonly approver: string; readonly approval_id: string }

/** $1 mission. Questions about its plan, its attempts and its outputs. */
const listQuestions = statement<Question>(
  'missions.list_questions',
  `select t.title, a.approver, a.approval_id from missions.orchestration_runs as r
  left join missions.orchestration_tasks as t on t.run_id = r.id and t.state_type <> 'terminal'
  join concord.approvals as a on a.workspace_id = r.workspace_id
    and a.command_id in (t.command_id, t.review_command_id, case when r.state_type = 'pending' then r.gate_command_id end)
where r.id = $1::uuid and a.status = 'pending' and a.superseded_by is null
order by t.sequence_number, a.approval_id limit 5`,
)

/** What the mission of a command waits for, as the end of a sentence about the command. Empty: it has none, or the mission has ended. */
export async function sayMissionOf(db: Db, workspaceId: string, commandId: string): Promise<string> {
  return scoped(db, workspaceId).read(async (tx) => {
    const run = await findMissionOfCommand(tx, commandId)
    if (!run || run.state_type === 'terminal') return ''
    const questions = await tx.run(listQuestions, [run.id])
    const asked = questions.map(({ title, approver, approval_id }) => {
      const about = title === null ? 'about its plan' : `about ${quote(title)}`
      return `. ${showActor(approver)} is asked ${about} with ${encodeId('approval', approval_id)}`
    })
    const held = sayHeld(run)
    const stands = held === '' ? '' : `.${held.slice(0, -1)}`
    return `. Its mission ${encodeId('mission', run.id)} ${sayState(run.state)}${stands}${asked.join('')}`
  })
}

export function explainTask(db: Db, asked: OfTask): Promise<Decision<ExplainedTask>> {
  return scoped(db, asked.workspaceId).read(async (tx): Promise<Decision<ExplainedTask>> => {
    const found = await findTaskWithRun(tx, asked)
    if (!found.ok) return found
    const { task, run } = found.value
    const upstream = await listUpstreamOf(tx, task.id)
    const [command] = task.command_id === null ? [] : await tx.run(findStatus, [task.command_id])
    const open = [task.command_id, task.review_command_id].flatMap((id) => id ?? [])
    const people = task.state_type === 'terminal' ? [] : await findAsked(tx, open)
    const cause = await findCause(tx, task)
    const summary = sayTask({ task, run, upstream, status: command?.status ?? null, people, cause })
    return accept({ task, summary, upstream, downstream: await listDownstreamOf(tx, task.id) })
  })
}

type Standing = {
  readonly task: StoredTask
  readonly run: Pick<StoredMission, 'state' | 'state_type' | 'created_by'>
  readonly upstream: readonly Upstream[]
  /** Of the command of its attempt. */
  readonly status: string | null
  readonly people: AskedNow
  /** Of a skipped task: what failed or was cancelled. */
  readonly cause: FailingTask
}

function sayTask({ task, run, upstream, status, people, cause }: Standing): string {
  const held = run.state_type === 'running' ? '' : ` The mission ${sayState(run.state)}.${sayHeld(run)}`
  const asked = people
    .map(({ approver, approval_id }) => ` ${showActor(approver)} is asked with ${encodeId('approval', approval_id)}.`)
    .join('')
  const attempt = `Attempt ${task.attempt_number}`
  const error = sayCause(task.error_message)
  const { worker } = task.spec.run
  const offer =
    worker === undefined || task.command_id === null || task.due_at !== null
      ? undefined
      : `It waits for a worker of the queue ${quote(worker)}. Its command ${encodeId('command', task.command_id)} ${sayState(status ?? task.state)}.${asked}${held}`
  switch (task.state) {
    case 'pending':
      return `${sayBlocked(task, upstream)}${held}`
    case 'skipped': {
      const why = cause.id === task.id ? '' : ` ${quote(cause.title)} is ${cause.state}`
      return `${sayBlocked(task, upstream)}${why}${why === '' ? '' : sayCause(cause.error_message)}`
    }
    case 'queued':
      return offer ?? `It starts with the next turn of the mission, as soon as fewer than 256 of its tasks run.${held}`
    case 'awaiting_retry': {
      const due = task.due_at === null ? '' : ` The next one is due at ${formatInstant(task.due_at)}.`
      return `${attempt} failed${error}${offer === undefined ? `${due}${held}` : ` ${offer}`}`
    }
    case 'verifying':
      return `The output of attempt ${task.attempt_number} waits for its verification.${asked}${held}`
    case 'awaiting_human':
      return `The output of attempt ${task.attempt_number} waits for the review of a person.${asked}`
    case 'completed':
      return `${attempt} completed it.`
    case 'failed':
    case 'cancelled':
      return `It is ${task.state}${error}`
    default: {
      const command = task.command_id === null ? '' : ` as ${encodeId('command', task.command_id)}`
      const at = status === null ? '' : `, which ${sayState(status)}`
      return `${attempt} runs${command}${at}.${asked}`
    }
  }
}

/** The end of a sentence. */
const sayCause = (message: string | null) =>
  message === null ? '.' : `: ${message}${/[.!?…]$/.test(message) ? '' : '.'}`

/** The kernel explains the rule over the task and what it depends on. */
function sayBlocked(task: StoredTask, upstream: readonly Upstream[]): string {
  const nodes = [task, ...upstream].map(({ spec }, sequence) => ({
    id: spec.temp_id,
    sequence,
    dependsOn: sequence === 0 ? upstream.map((each) => each.spec.temp_id) : [],
    rule: task.trigger_rule,
  }))
  const states = new Map([task, ...upstream].map((each) => [each.spec.temp_id, nodeStateOf(each)]))
  const graph = validateGraph(nodes)
  const why = graph.ok ? whyBlocked(graph.value, states, task.spec.temp_id) : graph
  return why.ok ? why.value.words : why.reason
}
