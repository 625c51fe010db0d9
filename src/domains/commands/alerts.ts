/**
 * Alerts the people on call of every incident: once, on every channel. The incident is the event that is committed with its cause. A sweep records
 * the alert and wakes its process in one transaction, and a turn delivers it, so a crash loses no alert. An external channel may receive one
 * twice, with the same id.
 */
import { postNotification } from '#domains/connectors'
import { listActive } from '#domains/identity'
import { eventBy } from '#kernel/actor'
import type { Clock, NewId } from '#kernel/clock'
import type { Drive, Runtime } from '#runtime'
import { appendEvents, type Db, eventIdOf, failpoint, type Sql, statement } from '#store'
import { systemActor } from './change.ts'
import { type CommandEventType, commandLog } from './events.ts'
import { type Alert, describeIncident, type Incident, incidentTypes } from './incidents.ts'

export const ALERT_KIND = 'alert'
export const ALERT_QUEUE = 'notifications'
/** A receiver that does not answer is retried at least once a minute for about eight hours. Then the alert is listed as stuck. */
export const ALERT_FAILURES_MAX = 500

/** A way to reach operators outside the app. `deliver` throws when it fails, and is retried. */
export type AlertChannel = {
  readonly name: string
  /** `id` is the same for every attempt, so a receiver can detect a repeat. */
  readonly deliver: (id: string, alert: Alert, signal: AbortSignal) => Promise<void>
}

type AlertDeps = {
  readonly db: Db
  readonly now: Clock
  readonly newId: NewId
  readonly wake: Runtime['wake']
  readonly channels: readonly AlertChannel[]
  /** The organisation role of the people on call. */
  readonly onCallRole?: string | undefined
}

/** The first condition is that of the index of incidents. `offset 0`: each incident finds its command, and no plan reads all commands. */
const TYPES = incidentTypes.map((type) => `'${type}'`).join(', ')
const INCIDENT = `select e.event_id, e.event_type, e.actor, j.workspace_id, j.command_id, j.trace_id, e.payload, j.created_at,
       c.task, c.status, c.requested_by, c.error
  from concord.journal j cross join lateral concord.unpack(j.entry_id, j.events) e
 cross join lateral (
       select coalesce(c.task_name, c.command_type) as task, c.status, c.requested_by, c.error
         from concord.commands c where c.workspace_id = j.workspace_id and c.command_id = j.command_id offset 0) as c
 where j.audit_type in (${TYPES}) and e.event_type in (${TYPES})`

/**
 * $1 the oldest time or null, $2 limit. Null reads from one day before this database got alerts (migration 17), so an
 * upgrade does not raise alerts for old history. `offset 0` makes Postgres look for the alert of each incident: without statistics it
 * would unpack every event of the database first (0.7 s at 7,000 commands).
 */
const listUnraised = statement<Incident>(
  'commands_list_unraised_incidents',
  `${INCIDENT}
   and j.created_at >= coalesce(
     $1::timestamptz, (select m.applied_at - interval '1 day' from public.concord_migrations m where m.number = 17), '-infinity')
   and not exists (
     select from concord.domain_events a
      where a.command_id = j.command_id and a.event_type = 'alert_raised' and a.payload->>'incident_id' = e.event_id::text offset 0)
 order by j.created_at, j.seq, e.place limit $2`,
)

/** $1 event. */
const findIncident = statement<Incident>('commands_find_incident', `${INCIDENT}\n   and e.event_id = $1`)

/** $1 command, $2 event. */
const listDelivered = statement<{ readonly channel: string }>(
  'commands_list_delivered_alerts',
  `select a.payload->>'channel' as channel from concord.domain_events a
    where a.command_id = $1 and a.event_type = 'alert_delivered' and a.payload->>'incident_id' = $2::text`,
)

const BATCH = 100
/** A sweep reads everything at the start of a process and once an hour. In between it reads the last two hours. */
const RECENT_MS = 3_600_000

/** Returns a sweep that raises an alert for every new incident, once across all processes, and returns their number. */
export function openAlertSweep(deps: AlertDeps): () => Promise<number> {
  let wholeAt = Number.NEGATIVE_INFINITY
  return async () => {
    const nowMs = deps.now().getTime()
    const isWhole = nowMs - wholeAt >= RECENT_MS
    const since = isWhole ? null : new Date(nowMs - 2 * RECENT_MS)
    const incidents = await deps.db.run(listUnraised, [since, BATCH])
    let raised = 0
    for (const incident of incidents) if (await raise(deps, incident)) raised += 1
    if (isWhole && incidents.length < BATCH) wholeAt = nowMs
    return raised
  }
}

async function raise(deps: AlertDeps, incident: Incident): Promise<boolean> {
  const isOurs = await deps.db.transaction(async (tx) => {
    if (!(await record(tx, deps, incident, 'alert_raised', {}))) return false
    await deps.wake({ kind: ALERT_KIND, id: incident.event_id }, { tx, queue: ALERT_QUEUE })
    return true
  })
  await failpoint('commands.alert_raised')
  return isOurs
}

/** Notifies the people on call in the app, then delivers on every channel. The runtime retries a failed turn. */
export function openAlertDrive(deps: AlertDeps): Drive {
  return async (eventId, { signal }) => {
    const open = await findOpenIncident(deps, eventId)
    if (!open) return { t: 'done' }
    await notifyOnCall(deps, open)
    const failure = await deliverOutside(deps, open, signal)
    if (failure) throw failure
    return { t: 'done' }
  }
}

type OpenIncident = { readonly incident: Incident; readonly alert: Alert; readonly delivered: readonly string[] }

/** Includes the channels that have delivered it. Undefined: the incident no longer exists. */
async function findOpenIncident(deps: AlertDeps, eventId: string): Promise<OpenIncident | undefined> {
  const { db } = deps
  const [incident] = await db.run(findIncident, [eventId])
  if (!incident) return undefined
  const delivered = await db.run(listDelivered, [incident.command_id, eventId])
  const alert = describeIncident(incident, await listOnCall(deps, incident))
  return { incident, alert, delivered: delivered.map(({ channel }) => channel) }
}

/** Delivers on every channel that has not delivered yet. A failing channel does not delay the others; the first failure is returned. */
async function deliverOutside(
  deps: AlertDeps,
  { incident, alert, delivered }: OpenIncident,
  signal: AbortSignal,
): Promise<Error | undefined> {
  const failures: Error[] = []
  for (const channel of deps.channels.filter(({ name }) => !delivered.includes(name))) {
    try {
      await channel.deliver(alert.incident_id, alert, signal)
    } catch (error) {
      failures.push(error instanceof Error ? error : new Error(String(error)))
      continue
    }
    await failpoint('commands.alert_delivered')
    await record(deps.db, deps, incident, 'alert_delivered', { channel: channel.name })
  }
  return failures[0]
}

/** The holders of the role for on-call. Without the role, or while nobody holds it, the administrators of the workspace. */
async function listOnCall({ db, onCallRole }: AlertDeps, { workspace_id }: Incident): Promise<readonly string[]> {
  const orgRoles = onCallRole === undefined ? [] : [onCallRole]
  const active = await listActive(db, { workspaceId: workspace_id, userIds: [], orgRoles, admins: true })
  const holders = active.filter((person) => person.orgRoles.some((role) => orgRoles.includes(role)))
  return (holders.length > 0 ? holders : active.filter(({ role }) => role === 'admin')).map(
    ({ userId }) => `user:${userId}`,
  )
}

/** Writes a message to the inbox of everybody on call, and the record of it, in one transaction. */
async function notifyOnCall(deps: AlertDeps, { incident, alert, delivered }: OpenIncident): Promise<void> {
  if (delivered.includes('app')) return
  const { on_call: recipients } = alert
  const { workspace_id, command_id, trace_id, event_id } = incident
  await deps.db.transaction(async (tx) => {
    if (!(await record(tx, deps, incident, 'alert_delivered', { channel: 'app', recipients }))) return
    for (const recipient of recipients) {
      await postNotification(tx, {
        id: deps.newId(),
        workspaceId: workspace_id,
        commandId: command_id,
        traceId: trace_id,
        key: `alert:${event_id}:${recipient}`,
        recipient,
        subject: alert.subject,
        text: `${alert.what} ${alert.next}`,
        at: deps.now(),
      })
    }
  })
}

/** Returns true when the record is new. */
async function record(
  sql: Sql,
  { now }: Pick<AlertDeps, 'now'>,
  { event_id, workspace_id, command_id, trace_id }: Incident,
  type: Extract<CommandEventType, 'alert_raised' | 'alert_delivered'>,
  more: { readonly channel?: string; readonly recipients?: readonly string[] },
): Promise<boolean> {
  const draft = {
    eventId: eventIdOf(type, event_id, more.channel ?? ''),
    type,
    payload: { incident_id: event_id, ...more, target_type: 'command', target_id: command_id },
    ...eventBy({ ...systemActor, traceId: trace_id }),
    at: now(),
    links: { workspace_id, command_id },
  }
  return (await appendEvents(sql, commandLog, [draft], { once: true })) > 0
}
