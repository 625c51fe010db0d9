/**
 * A command schedule: its row, its statements, and what people do with it. The row decides whether it fires and for whom; the runtime
 * keeps the due times of those that are on.
 */
import { isDeepStrictEqual } from 'node:util'
import { scheduledTypeOf } from '#domains/commands'
import type { Principal } from '#domains/identity'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { DEFAULT_MISFIRE_POLICY, type OverlapPolicy } from '#kernel/schedule'
import type { ScheduleView as RuntimeSchedule } from '#runtime'
import { type Db, defineTable, scoped, type Sql, statement, type Tx } from '#store'
import type { RowOf } from '#store/rows'
import { decideOwner, decideTerms, runtimeNameOf, runtimeSpecOf, type ScheduleTerms } from './decide-schedule.ts'
import { type CommandScheduleDeps, FIRING_QUEUE } from './deps.ts'
import { scheduleLog } from './events.ts'

export const scheduleOrigins = ['catalog', 'person'] as const

export type StoredCommandSchedule = RowOf<'schedules.command_schedules', { readonly payload: JsonObject }>

/** What a person gives, and may change. */
type Content = Pick<StoredCommandSchedule, keyof ScheduleTerms | 'overlap' | 'misfire' | 'jitter_ms'>
type Change = Partial<Omit<Content, 'command_type'> & Pick<StoredCommandSchedule, 'enabled'>>

export type CreateCommandSchedule = Pick<StoredCommandSchedule, 'name' | 'command_type' | 'cron'> & Change & Asked
export type ChangeCommandSchedule = ScheduleRef & { readonly change: Change }
type Asked = { readonly workspaceId: string; readonly traceId: string }
type ScheduleRef = Asked & { readonly scheduleId: string }

/** While one command of a schedule runs, a second of it would mostly do the same again. */
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

const listByName = statement<StoredCommandSchedule>(
  'schedules.list_by_name',
  `select * from ${TABLE}
    where workspace_id = $1 and removed_at is null and ($2::text is null or name collate "C" > $2 collate "C")
    order by name collate "C" limit $3`,
)

/** One at a time per workspace until the commit: inserts that cannot see each other would pass the limit together. */
const lockCount = statement(
  'schedules.lock_count',
  `select pg_advisory_xact_lock(hashtextextended('${TABLE}:' || $1::text, 0))`,
)

/** What people keep, switched on or off. Under `lockCount`. */
const countOfPeople = statement<{ readonly count: number }>(
  'schedules.count_of_people',
  `select count(*)::int as count from ${TABLE} where workspace_id = $1 and origin = 'person' and removed_at is null`,
)

/** Nothing comes back when the name is taken: the index decides, not a look before. $15 at. */
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

/** For a firing, which knows nothing but the id of its schedule. */
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

/** All that are not removed, of every workspace: what a starting process holds the runtime against. */
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
  if (!saved) throw new Error(`the locked schedule ${schedule_id} is gone`)
  return saved
}

// What people do.

export async function listCommandSchedules(
  db: Db,
  workspaceId: string,
  { afterName, limit }: { readonly afterName: string | null; readonly limit: number },
): Promise<readonly StoredCommandSchedule[]> {
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

/** Asking for the same once more gives the one that is there; its firings act with its maker's rights. */
export async function createCommandSchedule(
  deps: CommandScheduleDeps,
  principal: Principal,
  { workspaceId, traceId, name, ...input }: CreateCommandSchedule,
): Promise<Decision<{ readonly schedule: StoredCommandSchedule; readonly isNew: boolean }>> {
  const { db, now, newId, catalog } = deps.commands
  const at = now()
  const { cron, payload = {}, time_zone = 'UTC', queue = FIRING_QUEUE } = input
  const { overlap = DEFAULT_OVERLAP, misfire = DEFAULT_MISFIRE_POLICY, jitter_ms = 0, enabled = true } = input
  const command_type = scheduledTypeOf(catalog, input.command_type)
  const terms = { command_type, payload, cron, time_zone, queue }
  const decided = decideTerms(catalog, terms, at)
  if (!decided.ok) return decided
  const { created_by, created_role } = ownerOf(principal)
  const { schedulesMax } = deps
  const made = await scoped(db, workspaceId).transaction(async (tx) => {
    await tx.run(lockCount, [workspaceId])
    const [kept] = await tx.run(countOfPeople, [workspaceId])
    const isFull = (kept?.count ?? 0) >= schedulesMax
    const values = [command_type, JSON.stringify(payload), cron, time_zone, queue, overlap, misfire, jitter_ms, enabled]
    const row = [newId(), workspaceId, name, ...values, created_by, created_role, at]
    const [schedule] = isFull ? [] : await tx.run(insert, row)
    if (schedule) {
      const actor = { id: created_by, kind: 'user', traceId }
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

/** Changes it, or switches it. Who changes what it does answers for it from then on. */
export function changeCommandSchedule(
  deps: CommandScheduleDeps,
  principal: Principal,
  { change, ...ref }: ChangeCommandSchedule,
): Promise<Decision<StoredCommandSchedule>> {
  const { enabled: _, ...terms } = change
  const [first] = Object.keys(terms)
  return write(deps, principal, ref, 'schedule_changed', Object.keys(change), (schedule, at) => {
    if (first === undefined) return accept({ ...schedule, ...change })
    if (schedule.origin === 'catalog') {
      const reason = 'This schedule stands in the catalog; here it can only be switched.'
      const hint = 'Change it in the catalog of the project, or make one of your own.'
      return refuse('schedules.schedule.of_catalog', reason, { path: first, hint })
    }
    const decided = decideTerms(deps.commands.catalog, { ...schedule, ...terms }, at)
    return decided.ok ? accept({ ...schedule, ...change, ...ownerOf(principal) }) : decided
  })
}

/** Ends it; what it asked for goes on. */
export function removeCommandSchedule(
  deps: CommandScheduleDeps,
  principal: Principal,
  ref: ScheduleRef,
): Promise<Decision<StoredCommandSchedule>> {
  return write(deps, principal, ref, 'schedule_removed', [], (schedule, at) =>
    schedule.origin === 'catalog'
      ? refuse('schedules.schedule.of_catalog', 'This schedule stands in the catalog.', {
          hint: 'Take it out of the catalog of the project, or switch it off.',
        })
      : accept({ ...schedule, removed_at: at }),
  )
}

/** Lock, decide, save and record in one commit, then notify the runtime. */
async function write(
  deps: CommandScheduleDeps,
  principal: Principal,
  { workspaceId, scheduleId, traceId }: ScheduleRef,
  type: 'schedule_changed' | 'schedule_removed',
  changed: readonly string[],
  plan: (schedule: StoredCommandSchedule, at: Date) => Decision<StoredCommandSchedule>,
): Promise<Decision<StoredCommandSchedule>> {
  const { db, now, newId } = deps.commands
  const actor = { id: `user:${principal.userId}`, kind: principal.role === 'admin' ? 'operator' : 'user', traceId }
  const at = now()
  const written = await scoped(db, workspaceId).transaction(async (tx): Promise<Decision<StoredCommandSchedule>> => {
    const before = await lockSchedule(tx, workspaceId, scheduleId)
    if (!before) return refuseMissing()
    const mine = decideOwner(before, principal)
    if (!mine.ok) return mine
    const planned = plan(before, at)
    if (!planned.ok) return planned
    const schedule = await saveSchedule(tx, planned.value, at)
    await commandSchedules.append(tx, schedule, actor, { type, at, newId, payload: { changed } })
    return accept(schedule)
  })
  if (!written.ok) return written
  const arranged = await arrangeSchedule(deps, written.value)
  return arranged.ok ? written : arranged
}

/** Holds the runtime to what the row says: due times are kept for a schedule that is on, and for no other. Repeatable. */
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
  // Other times begin now: what the new ones would have had in the past was never missed.
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
  return refuse('schedules.schedule.name_taken', `There is another schedule called ${quote(name)}.`, {
    path: 'name',
    hint: 'Choose another name, or change that one.',
  })
}

function refuseFull(max: number): Decision<never> {
  return refuse('schedules.schedule.too_many', `This workspace has ${max} schedules, and may have no more.`, {
    hint: 'Remove one that is not needed (`concord schedules list`, `remove`), or raise CONCORD_SCHEDULES_MAX.',
    facts: { limit: max },
  })
}
