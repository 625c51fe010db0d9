/** What operators must hear of: each kind of incident in words, with the next step of a person. Pure. */
import { showActor } from '#domains/approvals'
import { encodeId } from '#kernel/ids'
import { UNDO_COMMAND } from './undo-task.ts'

/** The audit events that are incidents; the index `journal_incidents_ix` has the same list. */
export const incidentTypes = ['compensation_drift', 'budget_breached', 'model_quarantined', 'agents_stopped'] as const
type IncidentType = (typeof incidentTypes)[number]

export type Incident = {
  readonly event_id: string
  readonly event_type: IncidentType
  readonly workspace_id: string
  readonly command_id: string
  readonly trace_id: string
  readonly payload: Readonly<Record<string, unknown>>
  readonly actor: string
  readonly created_at: Date
  readonly task: string
  readonly status: string
  readonly requested_by: string
  readonly error: string | null
}

export type Alert = {
  readonly type:
    | 'compensation.drift'
    | 'compensation.failed'
    | 'budget.breached'
    | 'model.quarantined'
    | 'agents.stopped'
  readonly incident_id: string
  readonly command_id: string
  readonly workspace_id: string
  readonly task: string
  readonly status: string
  readonly requested_by: string
  /** What happened, in a few words. */
  readonly subject: string
  /** What happened, and what a person should do next. */
  readonly what: string
  readonly next: string
  readonly details: Readonly<Record<string, unknown>>
  /** The people who are notified in the app. */
  readonly on_call: readonly string[]
  readonly occurred_at: string
  readonly trace_id: string
}

type Told = Pick<Alert, 'type' | 'subject' | 'what' | 'next'>

export function describeIncident(incident: Incident, onCall: readonly string[]): Alert {
  const { event_id, command_id, workspace_id, trace_id, task, status, payload, created_at } = incident
  return {
    ...tellings[incident.event_type](incident, encodeId('command', command_id)),
    incident_id: encodeId('event', event_id),
    command_id: encodeId('command', command_id),
    workspace_id: encodeId('workspace', workspace_id),
    task,
    status,
    requested_by: showActor(incident.requested_by),
    details: payload,
    on_call: onCall.map(showActor),
    occurred_at: created_at.toISOString(),
    trace_id,
  }
}

const tellings: Readonly<Record<IncidentType, (incident: Incident, id: string) => Told>> = {
  compensation_drift: tellDrift,
  budget_breached: ({ task, payload }, id) => ({
    type: 'budget.breached',
    subject: `${task}: a call cost more than it had reserved`,
    what: `A call of ${task} (${id}) cost ${text(payload['excess_units'])} units more than it had reserved.`,
    next: `Run \`concord budgets show ${encodeId('budget', text(payload['target_id']))}\`, and check the prices and limits of the model.`,
  }),
  model_quarantined: ({ task, payload }, id) => ({
    type: 'model.quarantined',
    subject: `${text(payload['model'])}: the model is in quarantine`,
    what: `The model ${text(payload['model'])} is not called any more: a call of ${task} (${id}) cost ${text(payload['excess_units'])} units more than its worst case.`,
    next: `Correct the prices and limits of the model, then run \`concord budgets lift ${text(payload['model'])}\`.`,
  }),
  agents_stopped: ({ payload, actor }) => ({
    type: 'agents.stopped',
    subject: 'Agents were stopped',
    what: `${showActor(actor)} stopped ${payload['target'] === undefined || payload['target'] === null ? 'all agents' : `the ${text(payload['scope'])} ${text(payload['target'])}`}.`,
    next: 'Nothing of theirs begins until the stop is lifted.',
  }),
}

function tellDrift({ task, payload, error, requested_by }: Incident, id: string): Told {
  const requester = showActor(requested_by)
  const hasFailed = payload['halted'] !== undefined || !Array.isArray(payload['drift'])
  const names = (value: unknown) => (Array.isArray(value) && value.length > 0 ? value.join(', ') : 'nothing')
  const left = Array.isArray(payload['remaining']) ? payload['remaining'].length : 0
  if (hasFailed)
    return {
      type: 'compensation.failed',
      subject: `${task}: compensation failed`,
      what: `The compensation of ${task} (${id}, requested by ${requester}) stopped: ${error ?? 'an undo was refused'}. Effects left to undo: ${left}.`,
      next: `Run \`concord why ${id}\`, remove the cause, then undo the rest manually or with \`concord ${task === UNDO_COMMAND ? 'retry' : 'undo'} ${id}\`.`,
    }
  return {
    type: 'compensation.drift',
    subject: `${task}: compensation did not go as declared`,
    what: `The compensation of ${task} (${id}, requested by ${requester}) differs from its declaration. Done but not declared: ${names(payload['drift'])}. Declared but not done: ${names(payload['missing'])}.`,
    next: `Run \`concord why ${id}\` and correct the difference manually.`,
  }
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
