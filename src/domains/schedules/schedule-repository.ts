/** Reads and writes of `schedules.command_schedules`; what people ask for is found by id and workspace, behind both walls. */
import { defineLookup, rowType, type Sql, type Tx } from '#store'
import type { StoredSchedule } from './stored-schedule.ts'

export const scheduleLookup = defineLookup({
  noun: 'schedule',
  table: 'schedules.command_schedules',
  id: 'schedule_id',
  tenant: 'workspace_id',
  row: rowType<StoredSchedule>(),
})

const TABLE = 'schedules.command_schedules'

/** For a firing, which knows nothing but the name of its schedule. */
export async function findScheduleOfFiring(sql: Sql, scheduleId: string): Promise<StoredSchedule | undefined> {
  const [row] = await sql.query<StoredSchedule>(`select * from ${TABLE} where schedule_id = $1`, [scheduleId])
  return row
}

export async function lockSchedule(tx: Tx, workspaceId: string, id: string): Promise<StoredSchedule | undefined> {
  const [row] = await tx.query<StoredSchedule>(
    `select * from ${TABLE} where schedule_id = $1 and workspace_id = $2 and removed_at is null for update`,
    [id, workspaceId],
  )
  return row
}

export async function findScheduleByName(
  sql: Sql,
  workspaceId: string,
  name: string,
): Promise<StoredSchedule | undefined> {
  const [row] = await sql.query<StoredSchedule>(
    `select * from ${TABLE} where workspace_id = $1 and name = $2 and removed_at is null`,
    [workspaceId, name],
  )
  return row
}

/** All that are not removed, of every workspace: what a starting process holds the runtime against. */
export function listLiveSchedules(sql: Sql): Promise<StoredSchedule[]> {
  return sql.query<StoredSchedule>(`select * from ${TABLE} where removed_at is null order by schedule_id`)
}

export function listSchedulesByName(
  tx: Tx,
  workspaceId: string,
  page: { readonly afterName: string | null; readonly limit: number },
): Promise<StoredSchedule[]> {
  return tx.query<StoredSchedule>(
    `select * from ${TABLE}
      where workspace_id = $1 and removed_at is null and ($2::text is null or name collate "C" > $2 collate "C")
      order by name collate "C" limit $3`,
    [workspaceId, page.afterName, page.limit],
  )
}

export type NewSchedule = Omit<
  StoredSchedule,
  'updated_at' | 'removed_at' | 'last_due_at' | 'last_command_id' | 'last_refusal'
>

/** One at a time per workspace until the commit: inserts that cannot see each other would pass the limit together. */
export async function lockScheduleCount(tx: Tx, workspaceId: string): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock(hashtextextended('schedules.command_schedules:' || $1::text, 0))`, [
    workspaceId,
  ])
}

/** What people keep, switched on or off. Under the lock of `lockScheduleCount`. */
export async function countPersonSchedules(tx: Tx, workspaceId: string): Promise<number> {
  const [row] = await tx.query<{ count: number }>(
    `select count(*)::int as count from ${TABLE} where workspace_id = $1 and origin = 'person' and removed_at is null`,
    [workspaceId],
  )
  return row?.count ?? 0
}

/** Nothing comes back when the name is taken: the index decides, not a look before. */
export async function insertSchedule(tx: Tx, row: NewSchedule): Promise<StoredSchedule | undefined> {
  const columns = Object.keys(row)
  const marks = columns.map((_, index) => `$${index + 1}`)
  const [stored] = await tx.query<StoredSchedule>(
    `insert into ${TABLE} (${columns.join(', ')}, updated_at) values (${marks.join(', ')}, $${columns.indexOf('created_at') + 1})
     on conflict (workspace_id, name) where removed_at is null do nothing returning *`,
    Object.values(row),
  )
  return stored
}

export type ScheduleChange = Partial<
  Pick<
    StoredSchedule,
    | 'payload'
    | 'cron'
    | 'time_zone'
    | 'queue'
    | 'overlap'
    | 'misfire'
    | 'jitter_ms'
    | 'enabled'
    | 'created_by'
    | 'created_role'
    | 'removed_at'
  >
>

/** Under the lock of `lockSchedule`. The names of the columns are the type's own. */
export async function saveSchedule(
  tx: Tx,
  { schedule_id }: StoredSchedule,
  change: ScheduleChange,
  at: Date,
): Promise<StoredSchedule> {
  const columns = Object.keys(change)
  const sets = columns.map((column, index) => `${column} = $${index + 3}`)
  const [row] = await tx.query<StoredSchedule>(
    `update ${TABLE} set updated_at = $2${sets.map((set) => `, ${set}`).join('')} where schedule_id = $1 returning *`,
    [schedule_id, at, ...Object.values(change)],
  )
  if (!row) throw new Error(`the locked schedule ${schedule_id} is gone`)
  return row
}
