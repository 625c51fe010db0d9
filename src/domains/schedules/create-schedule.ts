/** A person makes a schedule. Asking for the same once more gives the one that is there; its firings act with its maker's rights. */
import { scheduledTypeOf } from '#domains/commands'
import type { Principal } from '#domains/identity'
import { isDeepStrictEqual } from 'node:util'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { DEFAULT_MISFIRE_POLICY, type MisfirePolicy, type OverlapPolicy } from '#kernel/schedule'
import { scoped } from '#store'
import { arrangeSchedule } from './arrange-schedule.ts'
import { decideTerms, type ScheduleTerms } from './decide-schedule.ts'
import { appendScheduleEvent } from './events.ts'
import {
  countPersonSchedules,
  findScheduleByName,
  insertSchedule,
  lockScheduleCount,
  type NewSchedule,
} from './schedule-repository.ts'
import type { StoredSchedule } from './stored-schedule.ts'
import { FIRING_QUEUE, type ScheduleDeps } from './deps.ts'

export type CreateSchedule = Pick<ScheduleTerms, 'command_type' | 'cron'> &
  Partial<ScheduleTerms> & {
    readonly workspaceId: string
    readonly name: string
    readonly overlap?: OverlapPolicy | undefined
    readonly misfire?: MisfirePolicy | undefined
    readonly jitter_ms?: number | undefined
    readonly enabled?: boolean | undefined
    readonly traceId: string
  }

export type CreatedSchedule = { readonly schedule: StoredSchedule; readonly isNew: boolean }

/** While one command of a schedule runs, a second of it would mostly do the same again. */
export const DEFAULT_OVERLAP: OverlapPolicy = 'skip'

export async function createSchedule(
  deps: ScheduleDeps,
  principal: Principal,
  { workspaceId, traceId, ...input }: CreateSchedule,
): Promise<Decision<CreatedSchedule>> {
  const { db, now, newId, catalog } = deps.commands
  const at = now()
  const { payload = {}, time_zone = 'UTC', queue = FIRING_QUEUE } = input
  const { overlap = DEFAULT_OVERLAP, misfire = DEFAULT_MISFIRE_POLICY, jitter_ms = 0, enabled = true } = input
  const command_type = scheduledTypeOf(catalog, input.command_type)
  const terms: ScheduleTerms = { command_type, cron: input.cron, payload, time_zone, queue }
  const decided = decideTerms(catalog, terms, at)
  if (!decided.ok) return decided
  const actor = `user:${principal.userId}`
  const wanted = { name: input.name, ...terms, overlap, misfire, jitter_ms, enabled, created_by: actor }
  const row: NewSchedule = {
    schedule_id: newId(),
    workspace_id: workspaceId,
    origin: 'person',
    ...wanted,
    created_role: principal.role === 'admin' ? 'admin' : 'writer',
    created_at: at,
  }
  const made = await scoped(db, workspaceId).transaction(async (tx): Promise<Decision<CreatedSchedule>> => {
    await lockScheduleCount(tx, workspaceId)
    const isFull = (await countPersonSchedules(tx, workspaceId)) >= deps.schedulesMax
    const schedule = isFull ? undefined : await insertSchedule(tx, row)
    if (schedule) {
      const fact = { type: 'schedule_created', schedule, actor, actorKind: 'user', traceId, at } as const
      await appendScheduleEvent(tx, newId(), fact)
      return accept({ schedule, isNew: true })
    }
    const there = await findScheduleByName(tx, workspaceId, input.name)
    if (!there && isFull) return refuseFull(deps.schedulesMax)
    return there && isSame(there, wanted) ? accept({ schedule: there, isNew: false }) : refuseName(input.name)
  })
  if (!made.ok) return made
  const arranged = await arrangeSchedule(deps, made.value.schedule)
  return arranged.ok ? made : arranged
}

function isSame(there: StoredSchedule, wanted: Partial<StoredSchedule>): boolean {
  return Object.entries(wanted).every(([field, value]) =>
    isDeepStrictEqual(there[field as keyof StoredSchedule], value),
  )
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
