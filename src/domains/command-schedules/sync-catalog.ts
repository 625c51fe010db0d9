/**
 * Synchronises schedules at the start of a process: those of the catalog become rows, those that left it are removed, and the
 * runtime keeps the due times of all enabled ones. Any number of processes may run it at once.
 */
import type { ScheduleSpec } from '#domains/commands'
import { findHomeWorkspace } from '#domains/identity'
import { bySystem } from '#kernel/actor'
import { DEFAULT_MISFIRE_POLICY } from '#kernel/schedule'
import { statement } from '#store'
import {
  arrangeSchedule,
  commandSchedules,
  DEFAULT_OVERLAP,
  findScheduleByName,
  listLiveSchedules,
  lockSchedule,
  saveSchedule,
  type StoredCommandSchedule,
} from './command-schedule.ts'
import type { CommandScheduleDeps } from './deps.ts'

const spec = 'command_type, payload, cron, time_zone, queue, overlap, misfire, jitter_ms'

/**
 * Inserts or updates the row of a catalog schedule. The unique name decides; a schedule of a person with that name stays
 * unchanged. $1 id if it is new, $2 workspace, $3 name, $4 command type, $5 payload, $6 cron, $7 zone, $8 queue, $9 overlap, $10
 * misfire, $11 jitter. Returns no row when nothing changed, or when the name belongs to a person. `enabled` keeps its value.
 */
const saveCatalogSchedule = statement<StoredCommandSchedule & { readonly is_new: boolean }>(
  'schedules.save_catalog',
  `insert into schedules.command_schedules as t (schedule_id, workspace_id, name, origin, ${spec}, created_by, created_role)
   values ($1::uuid, $2::uuid, $3, 'catalog', $4, $5::jsonb, $6, $7, $8, $9, $10, $11::integer, 'system', 'system')
       on conflict (workspace_id, name) where removed_at is null do update
      set command_type = excluded.command_type, payload = excluded.payload, cron = excluded.cron, time_zone = excluded.time_zone,
          queue = excluded.queue, overlap = excluded.overlap, misfire = excluded.misfire, jitter_ms = excluded.jitter_ms,
          updated_at = statement_timestamp()
    where t.origin = 'catalog'
      and (t.command_type, t.payload, t.cron, t.time_zone, t.queue, t.overlap, t.misfire, t.jitter_ms)
          is distinct from (excluded.command_type, excluded.payload, excluded.cron, excluded.time_zone, excluded.queue,
                            excluded.overlap, excluded.misfire, excluded.jitter_ms)
   returning t.*, (t.xmax = 0) as is_new`,
)

export type Synced = {
  readonly arranged: number
  readonly removed: readonly string[]
  /** Schedules of the catalog whose workspace does not exist yet: they do not fire, and the next sync checks again. */
  readonly homeless: readonly string[]
  /** Permanent reasons why a schedule does not fire. */
  readonly problems: readonly string[]
}

export async function syncCommandSchedules(deps: CommandScheduleDeps): Promise<Synced> {
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
    else problems.push(`The schedule ${schedule.name} cannot be registered: ${kept.reason}`)
  }
  return { arranged, removed, homeless, problems }
}

async function saveOfCatalog(
  deps: CommandScheduleDeps,
  workspaceId: string,
  spec: ScheduleSpec,
): Promise<string | undefined> {
  const { db, newId, now } = deps.commands
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
      const type = is_new ? 'schedule_created' : 'schedule_changed'
      await commandSchedules.append(tx, schedule, bySystem(deps.newIds().traceId), { type, at: now(), newId })
      return undefined
    }
    const there = await findScheduleByName(tx, workspaceId, spec.name)
    return there?.origin === 'person'
      ? `The schedule ${spec.name} of the catalog does not fire: a person has created one with that name.`
      : undefined
  })
}

/** Removes a schedule that left the catalog, from its row and from the runtime. Of several callers one writes. */
export async function retireSchedule(deps: CommandScheduleDeps, schedule: StoredCommandSchedule): Promise<void> {
  const { db, now, newId } = deps.commands
  await db.transaction(async (tx) => {
    const there = await lockSchedule(tx, schedule.workspace_id, schedule.schedule_id)
    if (!there) return
    const removed = await saveSchedule(tx, { ...there, removed_at: now() }, now())
    await commandSchedules.append(tx, removed, bySystem(deps.newIds().traceId), {
      type: 'schedule_removed',
      at: now(),
      newId,
    })
  })
  await arrangeSchedule(deps, { ...schedule, removed_at: now() })
}
