/**
 * What a starting process does about schedules: the catalog's become rows, those that left it end, and the runtime keeps the due
 * times of all that are on. Any number of processes may do it at once.
 */
import type { ScheduleSpec } from '#domains/commands'
import { findHomeWorkspace } from '#domains/identity'
import { DEFAULT_MISFIRE_POLICY } from '#kernel/schedule'
import { arrangeSchedule } from './arrange-schedule.ts'
import { DEFAULT_OVERLAP } from './create-schedule.ts'
import { appendScheduleEvent, type ScheduleEventType } from './events.ts'
import { findScheduleByName, listLiveSchedules, lockSchedule, saveSchedule } from './schedule-repository.ts'
import { saveCatalogSchedule } from './sql/save-catalog-schedule.ts'
import type { StoredSchedule } from './stored-schedule.ts'
import type { ScheduleDeps } from './deps.ts'

export type Synced = {
  readonly arranged: number
  readonly removed: readonly string[]
  /** Schedules of the catalog whose workspace does not exist yet: nothing fires, and the next sync looks again. */
  readonly homeless: readonly string[]
  /** What keeps a schedule from firing and will not pass by itself. */
  readonly problems: readonly string[]
}

export async function syncSchedules(deps: ScheduleDeps): Promise<Synced> {
  const { db, catalog } = deps.commands
  const homeless: string[] = []
  const problems: string[] = []
  const wanted = new Set<string>()
  for (const spec of catalog.schedules) {
    const workspaceId = await findHomeWorkspace(db, spec.workspace ?? deps.defaultWorkspace)
    if (workspaceId === undefined) homeless.push(spec.name)
    else {
      wanted.add(`${workspaceId}/${spec.name}`)
      const clash = await saveOfCatalog(deps, workspaceId, spec)
      if (clash !== undefined) problems.push(clash)
    }
  }
  const removed: string[] = []
  let arranged = 0
  for (const schedule of await listLiveSchedules(db)) {
    const isGone =
      schedule.origin === 'catalog' &&
      !wanted.has(`${schedule.workspace_id}/${schedule.name}`) &&
      !homeless.includes(schedule.name)
    if (isGone) {
      await retireSchedule(deps, schedule)
      removed.push(schedule.name)
      continue
    }
    const kept = await arrangeSchedule(deps, schedule)
    if (kept.ok) arranged += 1
    else problems.push(`the schedule ${schedule.name} cannot be kept: ${kept.reason}`)
  }
  return { arranged, removed, homeless, problems }
}

async function saveOfCatalog(deps: ScheduleDeps, workspaceId: string, spec: ScheduleSpec): Promise<string | undefined> {
  const { db, newId } = deps.commands
  const values = [
    newId(),
    workspaceId,
    spec.name,
    spec.command_type,
    JSON.stringify(spec.payload ?? {}),
    spec.cron,
    spec.time_zone ?? 'UTC',
    spec.queue,
    spec.overlap ?? DEFAULT_OVERLAP,
    spec.misfire ?? DEFAULT_MISFIRE_POLICY,
    spec.jitter_ms ?? 0,
  ]
  return db.transaction(async (tx) => {
    const [saved] = await tx.run(saveCatalogSchedule, values)
    if (saved) {
      const { is_new, ...schedule } = saved
      await appendScheduleEvent(tx, newId(), factOf(deps, is_new ? 'schedule_created' : 'schedule_changed', schedule))
      return undefined
    }
    const there = await findScheduleByName(tx, workspaceId, spec.name)
    return there?.origin === 'person'
      ? `the schedule ${spec.name} of the catalog does not fire: somebody made one of that name before`
      : undefined
  })
}

/** It left the catalog: its row ends, and the runtime forgets it. Of several that notice, one writes. */
export async function retireSchedule(deps: ScheduleDeps, schedule: StoredSchedule): Promise<void> {
  const { db, now, newId } = deps.commands
  await db.transaction(async (tx) => {
    const there = await lockSchedule(tx, schedule.workspace_id, schedule.schedule_id)
    if (!there) return
    const removed = await saveSchedule(tx, there, { removed_at: now() }, now())
    await appendScheduleEvent(tx, newId(), factOf(deps, 'schedule_removed', removed))
  })
  await arrangeSchedule(deps, { ...schedule, removed_at: now() })
}

function factOf(deps: ScheduleDeps, type: ScheduleEventType, schedule: StoredSchedule) {
  const { traceId } = deps.newIds()
  return { type, schedule, actor: 'system', actorKind: 'system', traceId, at: deps.commands.now() }
}
