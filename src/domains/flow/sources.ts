/** Sources: due times of cron sources by schedules of the runtime, continuous ones restarted when they have ended, events from outside. */
import { cronKey } from '#kernel/idempotency-key'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { Drive, Next } from '#runtime'
import { statement } from '#store'
import { findDataset, type StoredFlowJob } from './dag.ts'
import { FLOW_QUEUE, type FlowDeps, SOURCE_KIND } from './deps.ts'
import { createTasks } from './task.ts'

/** The same over all versions of a DAG, so that a due time is decided once. */
const scheduleName = `'fsrc_' || md5(j.org_id::text || '/' || j.dag_name || '/' || j.name)`
type CronSource = Pick<StoredFlowJob, 'id' | 'name' | 'source'> & { readonly schedule_name: string }

const current = `from flow.dag_current_versions as c join flow.jobs as j on j.dag_version_id = c.dag_version_id and j.activation = 'source'`
const listCron = statement<CronSource>(
  'flow.list_cron_sources',
  `select j.id, j.name, j.source, ${scheduleName} as schedule_name ${current} and j.source->>'kind' = 'cron' order by j.id`,
)
/** $1 schedule. */
const findCron = statement<CronSource>(
  'flow.find_cron_source',
  `select j.id, j.name, j.source, ${scheduleName} as schedule_name ${current} and j.source->>'kind' = 'cron' where ${scheduleName} = $1`,
)
/** Continuous sources without an open task, and how many tasks they have had. One that was canceled stays stopped until the next deployment. */
const listStopped = statement<{ readonly id: string; readonly count: number }>(
  'flow.list_stopped_sources',
  `select j.id, (select count(*) from flow.tasks as t where t.job_id = j.id)::int as count ${current} and j.source->>'kind' = 'continuous'
where not exists (select from flow.tasks as t where t.job_id = j.id and (t.status in ('Queued', 'Running', 'Canceled') or (t.status = 'Failed' and t.next_retry_at is not null)))`,
)

/** `arranged` has what this process has told the runtime: name → terms. Returns a message for each source that cannot be arranged. */
export async function arrangeSources(deps: FlowDeps, arranged: Map<string, string>): Promise<readonly string[]> {
  const problems: string[] = []
  const wanted = new Set<string>()
  for (const { name, source, schedule_name } of await deps.commands.db.run(listCron)) {
    const terms = JSON.stringify(source)
    wanted.add(schedule_name)
    if (arranged.get(schedule_name) === terms) continue
    const { schedule, time_zone = 'UTC' } = source as { readonly schedule: string; readonly time_zone?: string }
    // Each due time has its own task, so firings do not wait for each other.
    const spec = {
      name: schedule_name,
      cron: schedule,
      zone: time_zone,
      overlap: 'allow',
      missed: 'last',
      kind: SOURCE_KIND,
      queue: FLOW_QUEUE,
    } as const
    const kept = await deps.runtime.schedule(spec)
    if (kept.ok) arranged.set(schedule_name, terms)
    else problems.push(`The source ${name} cannot be scheduled: ${kept.reason}`)
  }
  for (const name of [...arranged.keys()].filter((each) => !wanted.has(each))) {
    await deps.runtime.unschedule(name)
    arranged.delete(name)
  }
  return problems
}

/** Starts the continuous sources that have no open task. Returns how many. */
export async function restartSources(deps: FlowDeps): Promise<number> {
  const { db } = deps.commands
  const stopped = await db.run(listStopped)
  const tasks = stopped.map(({ id, count }) => ({
    jobId: id,
    dedupeKey: `run:${count + 1}`,
    causedBy: { kind: 'restart', run: count + 1 },
  }))
  return (await createTasks(deps, db, tasks)).length
}

const done: Next = { t: 'done' }

/** A due time of a source: its task has the key of the due time, so it is made once, whatever dies. */
export function openSourceDrive(deps: FlowDeps): Drive {
  return async (id) => {
    const [, name = '', due = ''] = /^schedule:([^:]+):(.+)$/.exec(id) ?? []
    const [job] = await deps.commands.db.run(findCron, [name])
    const dueAt = new Date(due)
    if (!job || Number.isNaN(dueAt.getTime())) return done
    const causedBy = { kind: 'cron', due_at: dueAt.toISOString() }
    await createTasks(deps, deps.commands.db, [{ jobId: job.id, dedupeKey: cronKey(job.name, dueAt), causedBy }])
    return done
  }
}

/** $1 dataset. */
const findEventSource = statement<StoredFlowJob>(
  'flow.find_event_source',
  `select j.* ${current} join flow.datasets as d on d.org_id = j.org_id and d.producer_dag_name = j.dag_name and d.producer_job_name = j.name where d.id = $1::uuid`,
)

type ReportedEvent = {
  readonly orgId: string
  readonly dataset: string
  /** Names the event: the same again makes no second task. */
  readonly eventId: string
  readonly payload?: JsonObject | undefined
}

/** An event from outside runs its source once. */
export async function acceptEvent(
  deps: FlowDeps,
  { orgId, dataset, eventId, payload = {} }: ReportedEvent,
): Promise<Decision<{ readonly isNew: boolean }>> {
  const { db } = deps.commands
  const found = await findDataset(db, orgId, dataset)
  const [job] = found ? await db.run(findEventSource, [found.id]) : []
  if (!found) return refuse('flow.dataset.not_found', `There is no dataset ${quote(dataset)}.`)
  if (job?.source?.['kind'] !== 'event')
    return refuse('flow.event.source_unknown', `The dataset ${quote(dataset)} does not come from a source of events.`, {
      path: 'dataset',
    })
  const made = await createTasks(deps, db, [
    { jobId: job.id, dedupeKey: `event:${eventId}`, causedBy: { kind: 'event', event_id: eventId, payload } },
  ])
  return accept({ isNew: made.length > 0 })
}
