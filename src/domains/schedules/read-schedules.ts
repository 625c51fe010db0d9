/** Reads schedules behind both walls: a page by name, or one with what the runtime knows about it. */
import { accept, type Decision } from '#kernel/refusal'
import type { ScheduleView as RuntimeView } from '#runtime'
import { type Db, scoped } from '#store'
import { refuseMissing } from './change-schedule.ts'
import { listSchedulesByName, scheduleLookup } from './schedule-repository.ts'
import { runtimeNameOf, type StoredSchedule } from './stored-schedule.ts'
import type { ScheduleDeps } from './deps.ts'

export type SchedulePage = { readonly items: readonly StoredSchedule[]; readonly next: readonly string[] | undefined }

export async function listSchedules(
  db: Db,
  workspaceId: string,
  { afterName, limit }: { readonly afterName: string | null; readonly limit: number },
): Promise<SchedulePage> {
  // One row more than asked for says whether there is a next page.
  const rows = await scoped(db, workspaceId).read((tx) =>
    listSchedulesByName(tx, workspaceId, { afterName, limit: limit + 1 }),
  )
  const items = rows.slice(0, limit)
  const last = rows.length > limit ? items.at(-1) : undefined
  return { items, next: last && [last.name] }
}

export type ScheduleDetail = { readonly schedule: StoredSchedule; readonly known: RuntimeView | undefined }

export async function getSchedule(
  deps: ScheduleDeps,
  workspaceId: string,
  scheduleId: string,
): Promise<Decision<ScheduleDetail>> {
  const scope = scoped(deps.commands.db, workspaceId)
  const schedule = await scope.read((tx) => scope.find(scheduleLookup, scheduleId, tx))
  if (!schedule || schedule.removed_at !== null) return refuseMissing()
  return accept({ schedule, known: await deps.runtime.describeSchedule(runtimeNameOf(schedule)) })
}
