/** Explains a command as a chain of sentences: who asked, which rule decided, who approved, what was done, how it ended. Pure. */
import { type ApprovalEdit, type Standing, nameOfActor, personIdsOf, showActor } from '#domains/approvals'
import type { Names } from '#domains/identity'
import { type FieldClasses, redactPayload } from '#kernel/data-class'
import { encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { sayState } from '#kernel/say-state'
import { ABORT_TOKEN } from '#turns'
import { sayPath } from './catalog/agent-policies.ts'
import type { StoredCommand } from './command-table.ts'
import { type RunStanding, sayCall, sayStop } from './run-waits.ts'
import { sayAgent } from './say-agent.ts'
import { sayTaskGone } from './tasks.ts'

export type HistoryEvent = {
  readonly event_id: string
  readonly event_type: string
  readonly payload: Readonly<Record<string, unknown>>
  readonly actor: string
  readonly created_at: Date
}

type ExplainedStep = {
  readonly kind:
    | 'trigger'
    | 'policy'
    | 'input'
    | 'approval'
    | 'plan'
    | 'effect'
    | 'retry'
    | 'cancellation'
    | 'compensation'
    | 'undo'
    | 'abort'
    | 'outcome'
  readonly at: Date
  readonly by: string
  /** Their display names; null for roles and for Concord itself. */
  readonly by_name: string | null
  readonly text: string
  readonly event_id: string
}

type Explanation = { readonly summary: string; readonly chain: readonly ExplainedStep[] }

/** What the explanation needs in addition to the events. */
type ExplanationFacts = {
  readonly names?: Names
  readonly edits?: readonly ApprovalEdit[]
  /** The data classes of the payload's fields. Undefined when the task is not in the catalog. */
  readonly fields?: FieldClasses | undefined
  readonly isTaskGone?: boolean
  /** For each approval that it waits for: why it cannot be decided and what to do about it, and whose decision does not count. */
  readonly standings?: readonly Standing[]
  /** The run that it waits for, and what that run waits for. */
  readonly run?: RunStanding | undefined
  /** What another process waits for that it waits for, as the end of its sentence. */
  readonly waits?: string
  /** Its last undo, with the events of that command. */
  readonly undo?: { readonly command: StoredCommand; readonly events: readonly HistoryEvent[] }
  /** The command that it undoes. */
  readonly undoes?: StoredCommand
}

/** Not its effects, whose payloads and results may be large: the events say what was done. */
type Explained = { readonly command: StoredCommand }

type Kind = ExplainedStep['kind']
type Say = (event: HistoryEvent, found: Explained, who: (actor: unknown) => string) => string | undefined

const text = (value: unknown) =>
  typeof value === 'string' ? value : value === undefined || value === null ? '' : JSON.stringify(value)
const list = (value: unknown) => (Array.isArray(value) ? value.map(text) : [])
/** Drops the full stop: the sentence around it has one. */
const because = (value: unknown) => (text(value) === '' ? '' : `, because: ${text(value).replace(/\.$/, '')}`)

const capital = (said: string) => `${said.charAt(0).toUpperCase()}${said.slice(1)}`
const words = (value: unknown) => text(value).replaceAll('_', ' ')

/** In whose place somebody decided, and what ties them to the requester where the installation counts it. Older events have a mark. */
function sayAs({ tie, issued_by_requester, approved_for }: HistoryEvent['payload'], who: (actor: unknown) => string) {
  const tied = issued_by_requester === true ? 'has credentials that the requester issued' : text(tie)
  return `${approved_for === undefined ? '' : `, in place of ${who(approved_for)},`}${tied === '' ? '' : `, who ${tied},`}`
}

const says: Readonly<Record<string, readonly [Kind | ((event: HistoryEvent) => Kind), Say]>> = {
  command_created: [
    'trigger',
    ({ payload }, { command }, who) =>
      command.context.run_as === 'agent'
        ? `${capital(sayAgent(command))} of ${who(command.requested_by)} proposed ${text(payload['task_name'])}${because(command.context.metadata['reason'])}.`
        : `${who(command.requested_by)} asked for ${text(payload['task_name'])} by ${words(payload['ingress'])}${because(command.context.metadata['reason'])}.`,
  ],
  policy_evaluated: ['policy', ({ payload }) => sayPolicy(payload)],
  input_requested: [
    'input',
    ({ payload }) => `Input was requested: ${list(payload['missing_fields']).join(', ') || 'changes'}.`,
  ],
  input_supplied: ['input', ({ payload }) => `Input was supplied: ${list(payload['fields']).join(', ')}.`],
  approval_requested: [
    'approval',
    ({ payload }, _, who) => {
      const people = Number(payload['approvals_required'] ?? 1)
      const quorum = people > 1 ? `; ${people} different people must approve` : ''
      return `${who(payload['approver'])} was asked to approve${quorum}.`
    },
  ],
  approval_voted: [
    'approval',
    ({ payload, actor }, _, who) =>
      `${who(actor)}${sayAs(payload, who)} agreed, as ${list(payload['approved_by']).length} of ${text(payload['approvals_required'])}${because(payload['reason'])}.`,
  ],
  approval_decided: [
    'approval',
    ({ payload, actor }, _, who) =>
      `The answer of ${who(actor)}${sayAs(payload, who)} was ${words(payload['decision'] ?? payload['to'])}${because(payload['reason'])}.`,
  ],
  approval_blocked: [
    'approval',
    ({ payload }) =>
      `The approval could not be decided${because(payload['reason'])}; the administrators were notified.`,
  ],
  approval_expired: ['approval', () => 'The approval expired without an answer.'],
  envelope_used: [
    'approval',
    ({ payload }, _, who) =>
      `Approved with the envelope ${encodeId('command', text(payload['envelope_id']))} by ${list(payload['approved_by']).map(who).join(', ')}.`,
  ],
  plan_created: [
    'plan',
    ({ payload }) =>
      `It was planned in ${text(payload['steps'])} ${payload['steps'] === 1 ? 'step' : 'steps'}, ${words(payload['execution_mode'])}.`,
  ],
  effect_executed: [
    effectKind,
    ({ payload }, _, who) => {
      const { effect_type, attempt, signal_id: signal, sent_by } = payload
      if (typeof signal === 'string')
        return `The wait was ended by the signal ${encodeId('signal', signal)} of ${who(sent_by)}.`
      // An effect that ended with the command that it started has no attempt of its own.
      return `${text(effect_type)} was done${attempt === undefined ? '' : `, at attempt ${text(attempt)}`}.`
    },
  ],
  effect_failed: [
    effectKind,
    ({ payload }) =>
      `${text(payload['effect_type'])} failed${because(payload['last_error'] ?? payload['error_class'])}.`,
  ],
  effect_skipped: ['effect', ({ payload }) => `${text(payload['effect_type'])} was skipped.`],
  effect_outcome_unknown: [
    'effect',
    ({ payload }) => `It is unknown whether ${text(payload['effect_type'])} was done; a person was asked.`,
  ],
  effect_reconciled: [
    'effect',
    ({ payload }) => `A person found that it was ${payload['outcome'] === 'effect_happened' ? '' : 'not '}done.`,
  ],
  retry_scheduled: [
    'retry',
    ({ payload }) =>
      `${text(payload['effect_type'])} did not succeed at attempt ${text(payload['attempt'])} (${sayError(payload)}); the next attempt is due at ${text(payload['run_after'])}.`,
  ],
  wait_started: [
    'effect',
    ({ payload: { name, key, from, until } }) =>
      name === undefined
        ? `It waits until ${text(until)}.`
        : `It waits for the signal ${text(name)} for ${text(key)}${from === undefined ? '' : ` from ${text(from)}`}, until ${text(until)}.`,
  ],
  retry_requested: [
    'retry',
    ({ payload }) => `Run ${text(payload['attempt'])} was requested${because(payload['reason'])}.`,
  ],
  cancellation_requested: [
    'cancellation',
    ({ payload }) => `It was cancelled, ${words(payload['cancellation_mode'])}${because(payload['cancel_reason'])}.`,
  ],
  cancellation_ignored: [
    'cancellation',
    ({ payload }) => `A cancel request arrived when it was ${words(payload['status'])} and changed nothing.`,
  ],
  compensation_started: [
    'compensation',
    ({ payload }) =>
      `Compensation began, last effect first${because(payload['reason'] === 'on_failure' ? 'its contract says so' : payload['reason'])}.`,
  ],
  compensation_completed: ['compensation', () => 'Everything that could be undone is undone.'],
  compensation_drift: [
    'compensation',
    ({ payload }) => `Compensation did not go as declared: ${text(payload['halted'] ?? payload['drift'])}.`,
  ],
  alert_delivered: ['compensation', ({ payload }) => `Operators were alerted through ${text(payload['channel'])}.`],
  command_quarantined: [
    'outcome',
    ({ payload }) => `It was quarantined because its row is unreadable: ${text(payload['reason'])}.`,
  ],
  command_aborted: [
    'abort',
    ({ payload }) => `An operator stopped it: it gets no more turns until it is resumed${because(payload['reason'])}.`,
  ],
  command_resumed: ['abort', ({ payload }) => `An operator resumed it${because(payload['reason'])}.`],
  status_changed: ['outcome', ({ payload }) => sayEnd(payload)],
}

function sayError(payload: HistoryEvent['payload']): string {
  const [errorClass, message] = [text(payload['error_class']), text(payload['last_error']).replace(/\.$/, '')]
  return message === '' ? errorClass : `${errorClass}: ${message}`
}

function effectKind({ payload }: HistoryEvent): Kind {
  return text(payload['effect_type']).startsWith('compensation.') ? 'compensation' : 'effect'
}

/** Names the deciding rules: those whose answer is the decision. */
function sayPolicy(payload: HistoryEvent['payload']): string {
  const decision = text(payload['decision'])
  const trace = Array.isArray(payload['trace'])
    ? (payload['trace'] as readonly { rule?: unknown; answer?: unknown }[])
    : []
  const rules = trace.filter(({ answer }) => answer === decision).map(({ rule }) => text(rule))
  const by = rules.length > 0 ? ` by ${rules.join(', ')}` : ''
  return `Policy said ${decision.replaceAll('_', ' ')}${by}${because(list(payload['reasons']).join(' '))}.`
}

function sayEnd(payload: HistoryEvent['payload']): string | undefined {
  if (payload['target_type'] !== 'command') return undefined
  const to = text(payload['to'])
  if (!['succeeded', 'failed', 'cancelled', 'expired', 'compensated', 'blocked'].includes(to)) return undefined
  return `It ${sayState(to)}${because(payload['error'] ?? payload['error_class'] ?? sayReason(payload))}.`
}

function sayReason({ reason, child_command_id: child }: HistoryEvent['payload']): unknown {
  if (reason === 'agent_run') return 'a call of its agent waits for a person'
  return reason === 'child_command' ? `it waits for the command ${encodeId('command', text(child))}` : reason
}

function sayAborted({ turn_token, completed_at }: StoredCommand): string {
  if (turn_token !== ABORT_TOKEN || completed_at !== null) return ''
  return ', and an operator has stopped it (`concord stuck resume` resumes it)'
}

function sayStandings(standings: readonly Standing[]): string {
  const not = standings.flatMap(({ notCounted }) =>
    notCounted.map(({ name, reason }) => `. The decision of ${name} does not count, who ${reason}`),
  )
  const blocked = standings.flatMap(({ blocked: found }) =>
    found ? `. It cannot be decided now: ${found.reason} To do: ${found.hint.replace(/\.$/, '')}` : [],
  )
  // Several approvals of a command can be blocked for one reason.
  return [...new Set([...not, ...blocked])].join('')
}

/** The people whom the explanation names, so that their names are looked up once. */
export function actorsOf(
  { command }: Explained,
  events: readonly HistoryEvent[],
  edits: readonly ApprovalEdit[],
): readonly string[] {
  const named = events.flatMap(({ payload: { approver, approved_for, sent_by, approved_by } }) =>
    [approver, approved_for, sent_by, ...list(approved_by)].filter((actor) => typeof actor === 'string'),
  )
  return personIdsOf([
    command.requested_by,
    ...events.map(({ actor }) => actor),
    ...named,
    ...edits.map(({ by }) => by),
  ])
}

export function explainCommand(
  found: Explained,
  events: readonly HistoryEvent[],
  {
    names = new Map(),
    edits = [],
    fields,
    isTaskGone = false,
    standings = [],
    run,
    undo,
    undoes,
    waits = '',
  }: ExplanationFacts = {},
): Explanation {
  const who = (actor: unknown) => nameOfActor(text(actor), names) ?? showActor(text(actor))
  const stepOf = (event: HistoryEvent, actor: string, kind: Kind, sentence: string): ExplainedStep => ({
    kind,
    text: sentence,
    at: event.created_at,
    by: showActor(actor),
    by_name: nameOfActor(actor, names),
    event_id: event.event_id,
  })
  const rounds = roundsOf(events)
  const chain = events.flatMap((event): ExplainedStep[] => {
    const [kind, say] = says[event.event_type] ?? []
    const said = say?.(event, found, who)
    if (kind === undefined || said === undefined) return []
    const round = rounds.get(event.payload['payload_hash']) ?? []
    const isLast = round.length > 1 && round.at(-1) === event
    const sentence = isLast ? `${said} One person counts once, whatever roles they hold.` : said
    const step = stepOf(event, event.actor, typeof kind === 'function' ? kind(event) : kind, sentence)
    const edit =
      event.event_type === 'approval_requested'
        ? edits.find(({ approval_id }) => approval_id === event.payload['approval_id'])
        : undefined
    if (event.event_type === 'command_created' && undoes)
      return [step, stepOf(event, event.actor, 'undo', `It undoes ${sayCommand(undoes)}.`)]
    if (!edit) return [step]
    const others = found.command.context.run_as === 'agent' ? 'Another approver' : 'Another approver or the requester'
    const confirm = edit.is_author ? ` ${others} must confirm it.` : ''
    const change = `${who(edit.by)} ${sayEdit(edit, fields)}${because(edit.reason)}.${confirm}`
    return [stepOf(event, edit.by, 'approval', change), step]
  })
  const undoing = (undo?.events ?? []).flatMap((event): ExplainedStep[] => {
    const sentence = undo && sayUndo(event, undo.command, who)
    return sentence === undefined ? [] : [stepOf(event, event.actor, 'undo', sentence)]
  })
  const { command } = found
  const gone = isTaskGone && command.status === 'approved' ? sayTaskGone(command) : null
  const error = command.error ?? gone
  // A cancel after a failure closes the command and keeps the error.
  const had = command.status === 'cancelled' ? ', after it had failed: ' : ': '
  // The sentence goes on, and ends with its own full stop.
  const why = error === null ? '' : `${had}${error.replace(/\.$/, '')}`
  return {
    summary: `${command.task_name ?? command.command_type} ${sayState(command.status)}${why}${sayUndone(undo?.command)}${sayAborted(command)}${sayStandings(standings)}${sayRun(run, who)}${waits}${sayLabels(command)}.`,
    // The events of two commands: each in its own order, together in the order of time.
    chain: undoing.length === 0 ? chain : [...chain, ...undoing].toSorted((a, b) => a.at.getTime() - b.at.getTime()),
  }
}

/** What the run of the command waits for, and where its steps are. */
function sayRun(standing: RunStanding | undefined, who: (actor: unknown) => string): string {
  if (!standing) return ''
  const { run, stop, calls } = standing
  const stopped = stop ? `. It waits for the lift of ${sayStop(stop)}` : ''
  const waits = calls.map((call) => {
    const asked =
      call.approver === null
        ? ''
        : `: ${who(call.approver)} is asked with ${encodeId('approval', call.approval_id ?? '')}`
    return `. Its agent called ${sayCall(call)}, which ${sayState(call.status)}${asked}`
  })
  if (!run) return stopped
  const id = encodeId('agent_run', run.agent_run_id)
  const end = run.end_reason === null ? '' : ` and ended: ${words(run.end_reason)}`
  const steps = `. The run ${id} of ${run.agent_name} made ${run.step_count} ${run.step_count === 1 ? 'step' : 'steps'}${end}`
  return `${stopped}${waits.join('')}${steps} (\`concord agents steps ${id}\` lists them)`
}

/** The way of untrusted content from each source to the command. */
function sayLabels({ labels = [] }: StoredCommand): string {
  return labels.map((label) => `. Untrusted content has reached it: ${sayPath(label)}`).join('')
}

function sayCommand({ command_id, task_name, command_type, status }: StoredCommand): string {
  return `${task_name ?? command_type} (${encodeId('command', command_id)}), which ${sayState(status)}`
}

/** What the events of an undo say about the command that it undoes: that it was requested, and how it ended. */
function sayUndo(
  { event_type, payload, actor }: HistoryEvent,
  undo: StoredCommand,
  who: (actor: unknown) => string,
): string | undefined {
  const id = encodeId('command', undo.command_id)
  if (event_type === 'command_created')
    return `${who(actor)} asked to undo it with ${id}${because(undo.context.metadata['reason'])}.`
  const end = event_type === 'status_changed' ? sayEnd(payload) : undefined
  return end?.replace(/^It /, `Its undo ${id} `)
}

function sayUndone(undo: StoredCommand | undefined): string {
  return undo?.status === 'succeeded' ? `, and was undone by ${encodeId('command', undo.command_id)}` : ''
}

/** The requests for one content. */
function roundsOf(events: readonly HistoryEvent[]): ReadonlyMap<unknown, readonly HistoryEvent[]> {
  const requests = events.filter(({ event_type }) => event_type === 'approval_requested')
  return Map.groupBy(requests, ({ payload }) => payload['payload_hash'])
}

const CHARS_MAX = 200

/** What an approver changed before approving. Without `classes` the sensitivity of a field is unknown, so only its name is shown. */
function sayEdit({ fields, before, after }: ApprovalEdit, classes: FieldClasses | undefined): string {
  if (!classes) return `changed ${fields.join(', ')}`
  // Redacted like the command itself: no card data and no secrets.
  const [from, to] = [redactPayload(before, classes, 'pii'), redactPayload(after, classes, 'pii')]
  const changes = fields.map((field) => `${field} from ${show(from, field)} to ${show(to, field)}`)
  return `changed ${changes.join(', ')}`
}

function show(values: JsonObject, field: string): string {
  if (!Object.hasOwn(values, field)) return 'nothing'
  const shown = JSON.stringify(values[field])
  return shown.length > CHARS_MAX ? `${shown.slice(0, CHARS_MAX - 1)}…` : shown
}
