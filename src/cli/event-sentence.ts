/** One sentence for each event of the feed. Pure: the reader gives the names of people and of tasks. */
import type { AgentActionType } from '#kernel/agent-step'
import { encodeId } from '#kernel/ids'
import { sayState } from '#kernel/say-state'
import { showLine } from '#kernel/visible-text'
import { shortJson, wordsOf } from './terminal.ts'

export type ToldEvent = {
  readonly event_type: string
  readonly actor: string
  readonly command_id: string | null
  readonly created_at: string
  readonly payload: Readonly<Record<string, unknown>>
}

export type Telling = {
  /** The task of the command. */
  readonly task: string
  readonly who: (actor: unknown) => string
  readonly clock: (instant: string) => string
}

type Say = (payload: ToldEvent['payload'], telling: Telling, actor: string) => string

const text = (value: unknown) =>
  typeof value === 'string' ? showLine(value) : value === null || value === undefined ? '' : shortJson(value)
const words = (value: unknown) => text(value).replaceAll('_', ' ')
const because = (value: unknown) => (text(value) === '' ? '' : `: ${text(value).replace(/\.$/, '')}`)

const says: Readonly<Record<string, Say>> = {
  command_created: ({ ingress }, { task }, actor) =>
    ingress === 'agent_action' ? `An agent of ${actor} proposed ${task}` : `${actor} asked for ${task}`,
  command_rejected: ({ task_name, reason }, _, actor) =>
    `${actor} asked for ${text(task_name)}, which was refused${because(reason)}`,
  policy_evaluated: ({ decision, reasons }, { task }) =>
    `Policy answers ${words(decision)} for ${task}${because(Array.isArray(reasons) ? reasons.join(' ') : '')}`,
  plan_created: ({ steps }, { task }) => `${task} has a plan of ${text(steps)} ${steps === 1 ? 'step' : 'steps'}`,
  effect_planned: ({ effect_type }, { task }) => `${task} plans ${text(effect_type)}`,
  effect_executed: ({ effect_type, attempt }) =>
    `${text(effect_type)} succeeded${Number(attempt) > 1 ? ` on attempt ${text(attempt)}` : ''}`,
  effect_failed: ({ effect_type, last_error, error_class }) =>
    `${text(effect_type)} failed${because(last_error ?? error_class)}`,
  retry_scheduled: ({ effect_type, attempt, last_error, run_after }, { clock }) =>
    `${text(effect_type)} failed on attempt ${text(attempt)}${because(last_error)}; the next attempt is at ${clock(text(run_after))}`,
  approval_requested: ({ approver }, { task, who }) => `${who(approver)} is asked to approve ${task}`,
  approval_voted: ({ reason }, { task }, actor) => `${actor} agrees to ${task}${because(reason)}`,
  approval_decided: ({ decision, to, reason }, { task }, actor) =>
    `${actor} answers ${words(decision ?? to)} to ${task}${because(reason)}`,
  artifact_created: ({ artifact_type, artifact_id }, { task }) =>
    `${task} made the ${words(artifact_type)} ${text(artifact_id)}`,
  status_changed: ({ target_type, to, reason, error }, { task }) =>
    `${target_type === 'command' ? task : `The ${words(target_type)}`} ${sayState(text(to))}${because(error ?? (reason === 'agent_run' ? 'a call of its agent waits for a person' : reason))}`,
}

/** What an agent did in a step. */
const steps: Readonly<Record<AgentActionType, string>> = {
  tool_call: 'called a tool',
  spawn_subagent: 'spawned a subagent',
  read_memory: 'read memory',
  propose_memory: 'proposed a memory',
  create_artifact: 'made an artifact',
  request_approval: 'asked for an approval',
  request_human_input: 'asked a person for input',
  evaluate_output: 'evaluated an output',
  observe: 'made an observation',
  final_answer: 'gave its final answer',
}

function sayStep(type: string, { decision }: ToldEvent['payload'], actor: string): string | undefined {
  const did = Object.hasOwn(steps, type) ? steps[type as AgentActionType] : undefined
  return did && `${actor} ${did}${decision === 'allowed' ? '' : because(words(decision))}`
}

/** The names of event types are a noun and a participle, so every other event can be told too: "Org role auditor was granted". */
function sayPlain(
  type: string,
  { name, slug, title, external_id, target_id, reason }: ToldEvent['payload'],
  actor: string,
): string {
  const parts = wordsOf(type).split(' ')
  const [done = '', noun] = [parts.pop(), parts.join(' ')]
  const named = text(name ?? slug ?? title ?? external_id ?? target_id)
  const subject = [noun === '' ? 'It' : `${noun.charAt(0).toUpperCase()}${noun.slice(1)}`, named]
    .filter(Boolean)
    .join(' ')
  return `${subject} was ${done} by ${actor}${because(reason)}`
}

export function sayEvent({ event_type, actor, payload }: ToldEvent, telling: Telling): string {
  const by = telling.who(actor)
  return `${says[event_type]?.(payload, telling, by) ?? sayStep(event_type, payload, by) ?? sayPlain(event_type, payload, by)}.`
}

/** The public form of an actor in the feed. */
export function actorOf(actor: unknown): string {
  return text(actor).replace(/^(user|agent):([0-9a-f-]{36})$/, (_, kind: string, uuid: string) =>
    encodeId(kind === 'user' ? 'user' : 'agent_run', uuid),
  )
}
