/**
 * A command schedule: its row, its statements and its services. The row decides whether it fires and for whom; the runtime keeps
 * the due times of enabled schedules.
 */
import { isDeepStrictEqual } from 'node:util'
import { scheduledTypeOf } from '#domains/commands'
import type { PersonActor, Principal } from '#kernel/actor'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { DEFAULT_MISFIRE_POLICY, type OverlapPolicy } from '#kernel/schedule'
import type { ScheduleView as RuntimeSchedule } from '#runtime'
import { type Db, defineTable, type Paged, pageText, scoped, type Sql, statement, type Tx } from '#store'
import type { RowOf } from '#store/rows'
import {
  decideOwner,
  decideTerms,
  restoreHidden,
  runtimeNameOf,
  runtimeSpecOf,
  type ScheduleTerms,
} from './decide-schedule.ts'
import { type CommandScheduleDeps, FIRING_QUEUE } from './deps.ts'
import { scheduleLog } from './events.ts'

export const scheduleOrigins = ['catalog', 'person'] as const

export type StoredCommandSchedule = RowOf<'schedules.command_schedules', { readonly payload: JsonObject }>

/** The part that a person sends and may change. */
type Content = Pick<StoredCommandSchedule, keyof ScheduleTerms | 'overlap' | 'misfire' | 'jitter_ms'>
type Change = Partial<Omit<Content, 'command_type'> & Pick<StoredCommandSchedule, 'enabled'>>

export type CreateCommandSchedule = Pick<StoredCommandSchedule, 'name' | 'command_type' | 'cron'> & Change & InWorkspace
export type ChangeCommandSchedule = ScheduleRef & { readonly change: Change }
type InWorkspace = { readonly workspaceId: string }
type ScheduleRef = InWorkspace & { readonly scheduleId: string }

/** A second command that runs at the same time as one of the same schedule would usually repeat its work. */
export const DEFAULT_OVERLAP: OverlapPolicy = 'skip'

// The table.

const TABLE = 'schedules.command_schedules'
const content = 'command_type, payload, cron, time_zone, queue, overlap, misfire, jitter_ms'

export const commandSchedules = defineTable<StoredCommandSchedule>()({
  name: TABLE,
  noun: 'schedule',
  id: 'schedule_id',
  tenant: 'workspace_id',
  log: scheduleLog,
  links: ['workspace_id'],
  about: ({ name, origin, command_type, cron, time_zone, enabled }) => ({
    name,
    origin,
    command_type,
    cron,
    time_zone,
    enabled,
  }),
})

const findById = statement<StoredCommandSchedule>(
  'schedules.find_by_id',
  `select * from ${TABLE} where schedule_id = $1`,
)

const findByName = statement<StoredCommandSchedule>(
  'schedules.find_by_name',
  `select * from ${TABLE} where workspace_id = $1 and name = $2 and removed_at is null`,
)

const lockById = statement<StoredCommandSchedule>(
  'schedules.lock',
  `select * from ${TABLE} where schedule_id = $1 and workspace_id = $2 and removed_at is null for update`,
)

const listLive = statement<StoredCommandSchedule>(
  'schedules.list_live',
  `select * from ${TABLE} where removed_at is null order by schedule_id`,
)

const listByName = statement<StoredCommandSchedule & Paged>(
  'schedules.list_by_name',
  pageText(`select * from ${TABLE}
    where workspace_id = $1 and removed_at is null and ($2::text is null or name collate "C" > $2 collate "C")
    order by name collate "C" limit $3`),
)

/** Serialises inserts per workspace until the commit: inserts that cannot see each other could exceed the limit together. */
const lockCount = statement(
  'schedules.lock_count',
  `select pg_advisory_xact_lock(hashtextextended('${TABLE}:' || $1::text, 0))`,
)

/** Counts the schedules of people, enabled or not. Under `lockCount`. */
const countOfPeople = statement<{ readonly count: number }>(
  'schedules.count_of_people',
  `select count(*)::int as count from ${TABLE} where workspace_id = $1 and origin = 'person' and removed_at is null`,
)

/** Returns no row when the name is taken: the index decides, not an earlier read. $15 at. */
const insert = statement<StoredCommandSchedule>(
  'schedules.insert',
  `insert into ${TABLE} (schedule_id, workspace_id, name, origin, ${content}, enabled, created_by, created_role, created_at, updated_at)
   values ($1, $2, $3, 'person', $4, $5::jsonb, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15)
   on conflict (workspace_id, name) where removed_at is null do nothing returning *`,
)

/** Under `lockById`. */
const save = statement<StoredCommandSchedule>(
  'schedules.save',
  `update ${TABLE}
      set payload = $2::jsonb, cron = $3, time_zone = $4, queue = $5, overlap = $6, misfire = $7, jitter_ms = $8, enabled = $9,
          created_by = $10, created_role = $11, removed_at = $12, updated_at = $13
    where schedule_id = $1 returning *`,
)

/** For a firing, which knows only the id of its schedule. */
export async function findScheduleOfFiring(sql: Sql, scheduleId: string): Promise<StoredCommandSchedule | undefined> {
  const [row] = await sql.run(findById, [scheduleId])
  return row
}

export async function findScheduleByName(
  sql: Sql,
  workspaceId: string,
  name: string,
): Promise<StoredCommandSchedule | undefined> {
  const [row] = await sql.run(findByName, [workspaceId, name])
  return row
}

/** All schedules of every workspace that are not removed; a starting process compares the runtime with them. */
export function listLiveSchedules(sql: Sql): Promise<readonly StoredCommandSchedule[]> {
  return sql.run(listLive, [])
}

export async function lockSchedule(
  tx: Tx,
  workspaceId: string,
  scheduleId: string,
): Promise<StoredCommandSchedule | undefined> {
  const [row] = await tx.run(lockById, [scheduleId, workspaceId])
  return row
}

export async function saveSchedule(tx: Tx, row: StoredCommandSchedule, at: Date): Promise<StoredCommandSchedule> {
  const { schedule_id, payload, cron, time_zone, queue, overlap, misfire, jitter_ms, enabled } = row
  const terms = [JSON.stringify(payload), cron, time_zone, queue, overlap, misfire, jitter_ms, enabled]
  const owner = [row.created_by, row.created_role, row.removed_at]
  const [saved] = await tx.run(save, [schedule_id, ...terms, ...owner, at])
  if (!saved) throw new Error(`The locked schedule ${schedule_id} no longer exists.`)
  return saved
}

// The services.

export async function listCommandSchedules(
  db: Db,
  workspaceId: string,
  { afterName, limit }: { readonly afterName: string | null; readonly limit: number },
): Promise<readonly (StoredCommandSchedule & Paged)[]> {
  return scoped(db, workspaceId).read((tx) => tx.run(listByName, [workspaceId, afterName, limit]))
}

export type CommandScheduleDetail = {
  readonly schedule: StoredCommandSchedule
  readonly known: RuntimeSchedule | undefined
}

export async function getCommandSchedule(
  deps: CommandScheduleDeps,
  workspaceId: string,
  scheduleId: string,
): Promise<Decision<CommandScheduleDetail>> {
  const scope = scoped(deps.commands.db, workspaceId)
  const schedule = await scope.read((tx) => commandSchedules.find(tx, workspaceId, scheduleId))
  if (!schedule || schedule.removed_at !== null) return refuseMissing()
  return accept({ schedule, known: await deps.runtime.describeSchedule(runtimeNameOf(schedule)) })
}

/** A repeated request returns the existing schedule. Its firings act with the rights of its creator. */
export async function createCommandSchedule(
  deps: CommandScheduleDeps,
  actor: PersonActor,
  { workspaceId, name, ...input }: CreateCommandSchedule,
): Promise<Decision<{ readonly schedule: StoredCommandSchedule; readonly isNew: boolean }>> {
  const { db, now, newId, catalog } = deps.commands
  const at = now()
  const { cron, payload = {}, time_zone = 'UTC', queue = FIRING_QUEUE } = input
  const { overlap = DEFAULT_OVERLAP, misfire = DEFAULT_MISFIRE_POLICY, jitter_ms = 0, enabled = true } = input
  const command_type = scheduledTypeOf(catalog, input.command_type)
  const terms = { command_type, payload, cron, time_zone, queue }
  const restored = restoreHidden(catalog, terms, {})
  const decided = restored.ok ? decideTerms(catalog, terms, at) : restored
  if (!decided.ok) return decided
  const { created_by, created_role } = ownerOf(actor.principal)
  const { schedulesMax } = deps
  const made = await scoped(db, workspaceId).transaction(async (tx) => {
    await tx.run(lockCount, [workspaceId])
    const [kept] = await tx.run(countOfPeople, [workspaceId])
    const isFull = (kept?.count ?? 0) >= schedulesMax
    const values = [command_type, JSON.stringify(payload), cron, time_zone, queue, overlap, misfire, jitter_ms, enabled]
    const row = [newId(), workspaceId, name, ...values, created_by, created_role, at]
    const [schedule] = isFull ? [] : await tx.run(insert, row)
    if (schedule) {
      await commandSchedules.append(tx, schedule, actor, { type: 'schedule_created', at, newId })
      return accept({ schedule, isNew: true })
    }
    const there = await findScheduleByName(tx, workspaceId, name)
    if (!there && isFull) return refuseFull(schedulesMax)
    return there && isSame(there, { ...terms, overlap, misfire, jitter_ms, enabled, created_by })
      ? accept({ schedule: there, isNew: false })
      : refuseName(name)
  })
  if (!made.ok) return made
  const arranged = await arrangeSchedule(deps, made.value.schedule)
  return arranged.ok ? made : arranged
}

/** Changes, enables or disables it. A person who changes its content becomes its owner. */
export function changeCommandSchedule(
  deps: CommandScheduleDeps,
  actor: PersonActor,
  { change, ...ref }: ChangeCommandSchedule,
): Promise<Decision<StoredCommandSchedule>> {
  const { enabled: _, ...terms } = change
  const [first] = Object.keys(terms)
  return write(deps, actor, ref, 'schedule_changed', Object.keys(change), (schedule, at) => {
    if (first === undefined) return accept({ ...schedule, ...change })
    if (schedule.origin === 'catalog') {
      const reason = 'This schedule comes from the catalog, so it can only be enabled or disabled here.'
      const hint = 'Change it in the catalog of the project, or create your own.'
      return refuse('schedules.schedule.of_catalog', reason, { path: first, hint })
    }
    const { catalog } = deps.commands
    const restored = restoreHidden(catalog, { ...schedule, ...change }, schedule.payload)
    if (!restored.ok) return restored
    const decided = decideTerms(catalog, restored.value, at)
    return decided.ok ? accept({ ...restored.value, ...ownerOf(actor.principal) }) : decided
  })
}

/** Removes it; commands that it has already created continue. */
export function removeCommandSchedule(
  deps: CommandScheduleDeps,
  actor: PersonActor,
  ref: ScheduleRef,
): Promise<Decision<StoredCommandSchedule>> {
  return write(deps, actor, ref, 'schedule_removed', [], (schedule, at) =>
    schedule.origin === 'catalog'
      ? refuse('schedules.schedule.of_catalog', 'This schedule comes from the catalog.', {
          hint: 'Remove it from the catalog of the project, or disable it.',
        })
      : accept({ ...schedule, removed_at: at }),
  )
}

/** Lock, decide, save and record in one commit, then notify the runtime. */
async function write(
  deps: CommandScheduleDeps,
  { principal, ...actor }: PersonActor,
  { workspaceId, scheduleId }: ScheduleRef,
  type: 'schedule_changed' | 'schedule_removed',
  changed: readonly string[],
  plan: (schedule: StoredCommandSchedule, at: Date) => Decision<StoredCommandSchedule>,
): Promise<Decision<StoredCommandSchedule>> {
  const { db, now, newId } = deps.commands
  const by = { ...actor, kind: principal.role === 'admin' ? 'operator' : 'user' }
  const at = now()
  const written = await scoped(db, workspaceId).transaction(async (tx): Promise<Decision<StoredCommandSchedule>> => {
    const before = await lockSchedule(tx, workspaceId, scheduleId)
    if (!before) return refuseMissing()
    const mine = decideOwner(before, principal)
    if (!mine.ok) return mine
    const planned = plan(before, at)
    if (!planned.ok) return planned
    const schedule = await saveSchedule(tx, planned.value, at)
    await commandSchedules.append(tx, schedule, by, { type, at, newId, payload: { changed } })
    return accept(schedule)
  })
  if (!written.ok) return written
  const arranged = await arrangeSchedule(deps, written.value)
  return arranged.ok ? written : arranged
}

/** Brings the runtime in line with the row: it keeps due times for an enabled schedule only. Repeatable. */
export async function arrangeSchedule(
  { runtime }: Pick<CommandScheduleDeps, 'runtime'>,
  schedule: StoredCommandSchedule,
): Promise<Decision<void>> {
  if (!schedule.enabled || schedule.removed_at !== null) {
    await runtime.unschedule(runtimeNameOf(schedule))
    return accept(undefined)
  }
  const spec = runtimeSpecOf(schedule)
  const known = await runtime.describeSchedule(spec.name)
  // New times begin now: their due times in the past do not count as missed.
  if (known && (known.spec.cron !== spec.cron || (known.spec.zone ?? 'UTC') !== spec.zone))
    await runtime.unschedule(spec.name)
  const arranged = await runtime.schedule(spec)
  return arranged.ok ? accept(undefined) : arranged
}

function ownerOf({ userId, role }: Principal): Pick<StoredCommandSchedule, 'created_by' | 'created_role'> {
  return { created_by: `user:${userId}`, created_role: role === 'admin' ? 'admin' : 'writer' }
}

function isSame(there: StoredCommandSchedule, wanted: Partial<StoredCommandSchedule>): boolean {
  return Object.entries(wanted).every(([field, value]) =>
    isDeepStrictEqual(there[field as keyof StoredCommandSchedule], value),
  )
}

function refuseMissing(): Decision<never> {
  return refuse('schedules.schedule.not_found', 'There is no such schedule.', { hint: 'GET /schedules lists them.' })
}

function refuseName(name: string): Decision<never> {
  return refuse('schedules.schedule.name_taken', `Another schedule has the name ${quote(name)}.`, {
    path: 'name',
    hint: 'Choose another name, or change that one.',
  })
}

function refuseFull(max: number): Decision<never> {
  return refuse('schedules.schedule.too_many', `This workspace has ${max} schedules, which is the limit.`, {
    hint: 'Remove an unused one (`concord schedules list`, `remove`), or raise CONCORD_SCHEDULES_MAX.',
    facts: { limit: max },
  })
}
